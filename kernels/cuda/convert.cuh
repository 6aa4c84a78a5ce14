// Converts vectors of the half types to floats and back (kernels/convert.hpp): four elements per thread if
// the addresses allow it.
#pragma once

#include "kernels/cuda/convert.hpp"
#include "kernels/cuda/elements.cuh"

namespace mq::simt {

template <class Half>
MQ_DEVICE void widen(const kernels::dense::WidenElements& a) {
  const std::uint64_t all = std::uint64_t{blocks()} * threads();
  const std::uint64_t own = std::uint64_t{block()} * threads() + thread();
  std::uint64_t done = 0;
  if (packs<std::uint16_t>(a.half) && packs<float>(a.out)) {
    done = a.n / kPack<float> * kPack<float>;
    in_batches<4>(
        own * kPack<float>, done, all * kPack<float>,
        [&](std::uint64_t i) { return load_pack<std::uint16_t>(a.half + 2 * i); },
        [&](std::uint64_t i, const Pack<std::uint16_t>& half) {
          Pack<float> out;
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kPack<float>; ++j) out.of[j] = Half::to(half.of[j]);
          store_pack(a.out + 4 * i, out);
        });
  }
  in_batches<4>(
      done + own, a.n, all, [&](std::uint64_t i) { return load<std::uint16_t>(a.half + 2 * i); },
      [&](std::uint64_t i, std::uint16_t half) { store(a.out + 4 * i, Half::to(half)); });
}

// Writes to `kept` what it is to hold then.
template <class Half, bool kKeep, bool kMean>
MQ_DEVICE std::uint16_t narrow_one(float v, float& kept, float divisor) {
  const std::uint16_t half = Half::from(kMean ? quotient_of(v, divisor) : v);
  if constexpr (kKeep) kept = deposited(kept, v - (kMean ? divisor * Half::to(half) : Half::to(half)));
  return half;
}

template <class Half, bool kKeep, bool kMean>
MQ_DEVICE void narrow(const kernels::dense::NarrowElements& a) {
  const std::uint64_t all = std::uint64_t{blocks()} * threads();
  const std::uint64_t own = std::uint64_t{block()} * threads() + thread();
  struct Packs {
    Pack<float> v, kept;
  };
  struct One {
    float v, kept;
  };
  std::uint64_t done = 0;
  if (packs<std::uint16_t>(a.half) && packs<float>(a.v) && packs<float>(a.residual)) {
    done = a.n / kPack<float> * kPack<float>;
    in_batches<4>(
        own * kPack<float>, done, all * kPack<float>,
        [&](std::uint64_t i) {
          return Packs{load_pack<float>(a.v + 4 * i),
                       kKeep ? load_pack<float>(a.residual + 4 * i) : Pack<float>{}};
        },
        [&](std::uint64_t i, Packs e) {
          Pack<std::uint16_t> half;
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kPack<float>; ++j) {
            half.of[j] = narrow_one<Half, kKeep, kMean>(e.v.of[j], e.kept.of[j], a.divisor);
          }
          store_pack(a.half + 2 * i, half);
          if constexpr (kKeep) store_pack(a.residual + 4 * i, e.kept);
        });
  }
  in_batches<4>(
      done + own, a.n, all,
      [&](std::uint64_t i) {
        return One{load<float>(a.v + 4 * i), kKeep ? load<float>(a.residual + 4 * i) : 0.0F};
      },
      [&](std::uint64_t i, One e) {
        store(a.half + 2 * i, narrow_one<Half, kKeep, kMean>(e.v, e.kept, a.divisor));
        if constexpr (kKeep) store(a.residual + 4 * i, e.kept);
      });
}
template <class Half>
MQ_DEVICE void narrow(const kernels::dense::NarrowElements& a) {
  if (a.divisor != 1.0F)
    a.residual != nullptr ? narrow<Half, true, true>(a) : narrow<Half, false, true>(a);
  else
    a.residual != nullptr ? narrow<Half, true, false>(a) : narrow<Half, false, false>(a);
}

}  // namespace mq::simt

MQ_KERNEL(widen_f16, mq::kernels::dense::WidenElements, 256) { mq::simt::widen<mq::simt::F16Code>(args); }
MQ_KERNEL(widen_bf16, mq::kernels::dense::WidenElements, 256) { mq::simt::widen<mq::simt::Bf16Code>(args); }
MQ_KERNEL(narrow_f16, mq::kernels::dense::NarrowElements, 256) { mq::simt::narrow<mq::simt::F16Code>(args); }
MQ_KERNEL(narrow_bf16, mq::kernels::dense::NarrowElements, 256) {
  mq::simt::narrow<mq::simt::Bf16Code>(args);
}
