// The loops of codecs that code every element alone. A thread block takes tiles of 4096 elements. Each
// thread handles 16 elements in packs of 16 bytes; it loads all before it uses the first, so that enough
// memory requests are in flight. Where an address is not a multiple of a pack, and at the end, it handles one
// element at a time.
#pragma once

#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/elements.cuh"

namespace mq::simt {

// What a thread encoded.
struct Counts {
  std::uint32_t nonfinite = 0, overflows = 0;
};

// Encodes one element: returns its code, writes the new residual to `r`, and counts v if it is not finite or
// becomes so.
template <class E, class T, kernels::Feedback F>
MQ_DEVICE typename E::Code encode_one(T v, T& r, Counts& counts) {
  const auto code = E::put(v);
  if constexpr (F != kernels::Feedback::none) {
    const T decoded = E::get(code);
    const T error = is_finite(decoded) ? v - decoded : T{0};
    r = F == kernels::Feedback::deposit ? deposited(r, error) : error;
  }
  counts.nonfinite += !is_finite(v);
  if constexpr (E::kOverflows) counts.overflows += is_finite(v) && !is_finite(E::get(code));
  return code;
}

template <class E, class T, kernels::Feedback F>
MQ_DEVICE void encode_tile(const kernels::dense::EncodeElements& a, std::uint64_t begin, Counts& counts) {
  using namespace kernels::dense;
  using Code = typename E::Code;
  constexpr bool kResidual = F != kernels::Feedback::none;
  constexpr std::uint32_t kPacks = kTile / kThreads / kPack<T>;
  Pack<T> x[kPacks], r[kPacks];
  const std::uint64_t at = begin + kPack<T> * thread();
  MQ_UNROLL(8)
  for (std::uint32_t i = 0; i < kPacks; ++i) {
    x[i] = load_pack<T>(a.x + (at + i * kPack<T> * kThreads) * sizeof(T));
    if constexpr (kResidual) r[i] = load_pack<T>(a.residual + (at + i * kPack<T> * kThreads) * sizeof(T));
  }
  MQ_UNROLL(8)
  for (std::uint32_t i = 0; i < kPacks; ++i) {
    Pack<Code, kPack<T>> codes;
    if constexpr (F == kernels::Feedback::carry) x[i] = sum_of(x[i], r[i]);
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kPack<T>; ++j)
      codes.of[j] = encode_one<E, T, F>(x[i].of[j], r[i].of[j], counts);
    store_pack(a.wire + (at + i * kPack<T> * kThreads) * sizeof(Code), codes);
    if constexpr (kResidual) store_pack(a.residual + (at + i * kPack<T> * kThreads) * sizeof(T), r[i]);
  }
}

template <class E, class T, kernels::Feedback F>
MQ_DEVICE void encode_elements(const kernels::dense::EncodeElements& a, Counts& counts) {
  using namespace kernels::dense;
  using Code = typename E::Code;
  constexpr bool kResidual = F != kernels::Feedback::none;
  const bool packed = packs<T>(a.x) && packs<Code, kPack<T>>(a.wire) && (!kResidual || packs<T>(a.residual));
  for (std::uint64_t begin = std::uint64_t{block()} * kTile; begin < a.n;
       begin += std::uint64_t{blocks()} * kTile) {
    if (packed && a.n - begin >= kTile) {
      encode_tile<E, T, F>(a, begin, counts);
      continue;
    }
    struct Both {
      T x, r;
    };
    in_batches<kElementBatch<T, true>>(
        begin + thread(), smaller(a.n, begin + kTile), kThreads,
        [&](std::uint64_t i) {
          return Both{load<T>(a.x + i * sizeof(T)), kResidual ? load<T>(a.residual + i * sizeof(T)) : T{0}};
        },
        [&](std::uint64_t i, Both e) {
          if constexpr (F == kernels::Feedback::carry) e.x = sum_of(e.x, e.r);
          store(a.wire + i * sizeof(Code), encode_one<E, T, F>(e.x, e.r, counts));
          if constexpr (kResidual) store(a.residual + i * sizeof(T), e.r);
        });
  }
}

// Adds the counts of the block's threads, and writes the length of the wire. All threads must call it. Most
// vectors are finite; then the only access to `encoded`, which is in host memory, is one store by the first
// block.
MQ_DEVICE void end_encode(kernels::DeviceEncoded* encoded, std::uint64_t bytes, std::uint64_t nonfinite,
                          std::uint64_t overflows = 0) {
  if (block() == 0 && thread() == 0) encoded->bytes = bytes;
  if (!barrier_or(nonfinite + overflows != 0)) return;
  auto& all_nonfinite = shared<std::uint64_t, 99>();
  auto& all_overflows = shared<std::uint64_t, 98>();
  if (thread() == 0) all_nonfinite = all_overflows = 0;
  barrier();
  if (nonfinite != 0) atomic_add(&all_nonfinite, nonfinite);
  if (overflows != 0) atomic_add(&all_overflows, overflows);
  barrier();
  if (thread() != 0) return;
  if (all_nonfinite != 0) atomic_add(&encoded->nonfinite, all_nonfinite);
  if (all_overflows != 0) atomic_add(&encoded->overflows, all_overflows);
}

template <class E, class T>
MQ_DEVICE void dense_encode(const kernels::dense::EncodeElements& a) {
  using kernels::Feedback;
  Counts counts;
  if (a.feedback == Feedback::none)
    encode_elements<E, T, Feedback::none>(a, counts);
  else if (a.feedback == Feedback::carry)
    encode_elements<E, T, Feedback::carry>(a, counts);
  else
    encode_elements<E, T, Feedback::deposit>(a, counts);
  end_encode(a.encoded, a.bytes, counts.nonfinite, counts.overflows);
}

template <class E, class T, bool kAdd>
MQ_DEVICE void decode_tile(const kernels::dense::DecodeElements& a, std::uint64_t begin) {
  using namespace kernels::dense;
  using Code = typename E::Code;
  constexpr std::uint32_t kPacks = kTile / kThreads / kPack<T>;
  Pack<Code, kPack<T>> codes[kPacks];
  Pack<T> base[kPacks];
  const std::uint64_t at = begin + kPack<T> * thread();
  MQ_UNROLL(8)
  for (std::uint32_t i = 0; i < kPacks; ++i) {
    codes[i] = load_pack<Code, kPack<T>>(a.wire + (at + i * kPack<T> * kThreads) * sizeof(Code));
    if constexpr (kAdd) base[i] = load_pack<T>(a.base + (at + i * kPack<T> * kThreads) * sizeof(T));
  }
  MQ_UNROLL(8)
  for (std::uint32_t i = 0; i < kPacks; ++i) {
    Pack<T> x;
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kPack<T>; ++j) {
      x.of[j] = E::get(codes[i].of[j]);
      if constexpr (kAdd) x.of[j] = joined_sum(base[i].of[j], x.of[j]);
    }
    store_pack(a.x + (at + i * kPack<T> * kThreads) * sizeof(T), x);
  }
}

template <class E, class T, bool kAdd>
MQ_DEVICE void decode_elements(const kernels::dense::DecodeElements& a) {
  using namespace kernels::dense;
  using Code = typename E::Code;
  const bool packed = packs<Code, kPack<T>>(a.wire) && packs<T>(a.x) && (!kAdd || packs<T>(a.base));
  for (std::uint64_t begin = std::uint64_t{block()} * kTile; begin < a.n;
       begin += std::uint64_t{blocks()} * kTile) {
    if (packed && a.n - begin >= kTile) {
      decode_tile<E, T, kAdd>(a, begin);
      continue;
    }
    in_batches<kElementBatch<T, true>>(
        begin + thread(), smaller(a.n, begin + kTile), kThreads,
        [&](std::uint64_t i) {
          const T v = E::get(load<Code>(a.wire + i * sizeof(Code)));
          return kAdd ? joined_sum(load<T>(a.base + i * sizeof(T)), v) : v;
        },
        [&](std::uint64_t i, T v) { store(a.x + i * sizeof(T), v); });
  }
}

template <class E, class T>
MQ_DEVICE void dense_decode(const kernels::dense::DecodeElements& a) {
  if (a.base != nullptr)
    decode_elements<E, T, true>(a);
  else
    decode_elements<E, T, false>(a);
}

}  // namespace mq::simt

#define MQ_DENSE_KERNELS(name, T, ...)                                \
  MQ_KERNEL(name##_encode, mq::kernels::dense::EncodeElements, 256) { \
    mq::simt::dense_encode<mq::simt::__VA_ARGS__, T>(args);           \
  }                                                                   \
  MQ_KERNEL(name##_decode, mq::kernels::dense::DecodeElements, 256) { \
    mq::simt::dense_decode<mq::simt::__VA_ARGS__, T>(args);           \
  }

namespace mq::simt {

template <class T>
MQ_DEVICE void divide(const kernels::dense::Divide& a) {
  const auto divisor = static_cast<T>(a.divisor);
  const std::uint64_t all = std::uint64_t{blocks()} * threads();
  const std::uint64_t own = std::uint64_t{block()} * threads() + thread();
  std::uint64_t done = 0;
  if (packs<T>(a.x)) {
    done = a.n / kPack<T> * kPack<T>;
    in_batches<4>(
        own * kPack<T>, done, all * kPack<T>,
        [&](std::uint64_t i) { return load_pack<T>(a.x + i * sizeof(T)); },
        [&](std::uint64_t i, Pack<T> v) {
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kPack<T>; ++j) v.of[j] = quotient_of(v.of[j], divisor);
          store_pack(a.x + i * sizeof(T), v);
        });
  }
  in_batches<4>(
      done + own, a.n, all, [&](std::uint64_t i) { return load<T>(a.x + i * sizeof(T)); },
      [&](std::uint64_t i, T v) { store(a.x + i * sizeof(T), quotient_of(v, divisor)); });
}

}  // namespace mq::simt

MQ_KERNEL(divide_f32, mq::kernels::dense::Divide, mq::kernels::dense::kThreads) {
  mq::simt::divide<float>(args);
}
MQ_KERNEL(divide_f64, mq::kernels::dense::Divide, mq::kernels::dense::kThreads) {
  mq::simt::divide<double>(args);
}

// Sixteen bytes at a time if both addresses allow it: a read of host memory takes microseconds, so few long
// ones are better.
MQ_KERNEL(bring_bytes, mq::kernels::dense::Bring, mq::kernels::dense::kThreads) {
  using namespace mq::simt;  // NOLINT: the kernels' language
  const std::uint64_t step = std::uint64_t{blocks()} * threads(),
                      own = std::uint64_t{block()} * threads() + thread();
  const bool in_sixteens = aligned(args.to, sizeof(Sixteen)) && aligned(args.from, sizeof(Sixteen));
  const std::uint64_t whole = in_sixteens ? args.bytes / sizeof(Sixteen) : 0;
  in_batches<4>(
      own, whole, step, [&](std::uint64_t i) { return reinterpret_cast<const Sixteen*>(args.from)[i]; },
      [&](std::uint64_t i, Sixteen v) { reinterpret_cast<Sixteen*>(args.to)[i] = v; });
  in_batches<4>(
      whole * sizeof(Sixteen) + own, args.bytes, step, [&](std::uint64_t i) { return args.from[i]; },
      [&](std::uint64_t i, std::byte v) { args.to[i] = v; });
}

MQ_KERNEL(encode_nothing, mq::kernels::dense::Nothing, 32) {
  if (mq::simt::thread() == 0) *args.encoded = {};
}

MQ_KERNEL(decode_refuse, mq::kernels::dense::Refuse, 32) {
  if (mq::simt::thread() == 0) *args.malformed = 1;
}
