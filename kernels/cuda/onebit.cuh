// onebit on a GPU: a warp a block, lane for lane as the host's 32 lanes, so that its sums have the same bits.
// v = x + residual is read once, 16 bytes a thread where addresses allow it, and kept in shared memory; sums,
// codes and errors come from there. Means go through the host's arithmetic (kernels/onebit.hpp).
#pragma once

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/onebit_args.hpp"

namespace mq::simt {

// v of n elements into shared memory; +0 up to the next multiple of 32. residual: null if v = x.
template <class T>
MQ_DEVICE void fill(T* v, const std::byte* x, const std::byte* residual, std::uint32_t n) {
  std::uint32_t begin = 0;
  if (packs<T>(x) && packs<T>(residual)) {
    begin = n / kPack * kPack;
    MQ_UNROLL(8)
    for (std::uint32_t i = lane() * kPack; i < begin; i += 32 * kPack) {
      Pack<T> pack = load_pack<T>(x + std::size_t{i} * sizeof(T));
      if (residual != nullptr) {
        const Pack<T> r = load_pack<T>(residual + std::size_t{i} * sizeof(T));
        MQ_UNROLL(4)
        for (std::uint32_t j = 0; j < kPack; ++j) pack.of[j] = sum_of(pack.of[j], r.of[j]);
      }
      *reinterpret_cast<Pack<T>*>(v + i) = pack;
    }
  }
  MQ_UNROLL(8)
  for (std::uint32_t i = begin + lane(); i < n; i += 32) {
    T e = load<T>(x + std::size_t{i} * sizeof(T));
    if (residual != nullptr) e = sum_of(e, load<T>(residual + std::size_t{i} * sizeof(T)));
    v[i] = e;
  }
  if (const std::uint32_t i = n / 32 * 32 + lane(); i >= n && n % 32 != 0) v[i] = T{0};
  warp_sync();
}

// The bits of the lanes of group g that n elements have.
MQ_DEVICE std::uint32_t group_bits(std::uint32_t g, std::uint32_t n) {
  return n - 32 * g >= 32 ? kAll : (1u << (n - 32 * g)) - 1;
}

// Codes of a block, collected until each lane has a word of 32 groups.
struct CodeWriter {
  std::byte* codes;
  std::uint32_t n, mine;
  MQ_DEVICE void put(std::uint32_t g, std::uint32_t word) {
    if (lane() == g % 32) mine = word;
    const std::uint32_t groups = (n + 31) / 32;
    if (g % 32 != 31 && g + 1 != groups) return;
    const std::uint32_t own = g / 32 * 32 + lane();
    if (own > g) return;
    if (32 * own + 32 <= n) {
      store(codes + 4 * own, mine);
    } else {
      for (std::uint32_t i = 0; i < (n - 32 * own + 7) / 8; ++i)
        codes[4 * own + i] = static_cast<std::byte>(mine >> (8 * i));
    }
  }
};

// The host's SplitSum::total: lanes joined in double by halving. In every lane.
template <class T>
MQ_DEVICE double total_of(T sum) {
  double total = static_cast<double>(sum);
  for (std::uint32_t d = 16; d > 0; d /= 2) total = total + shuffle_down(total, d);
  return shuffle(total, 0);
}

// Sums of both sides of at most kSumPiece elements, joined to the sides. False if one is not finite; then the
// sides have not changed. codes: null, or where their bits go.
template <class T, bool kHuge>
MQ_DEVICE bool sum_sides(const T* v, std::uint32_t n, kernels::onebit::Sides<T>& sides, std::byte* codes) {
  constexpr double kScale = kHuge ? 0x1p-13 : 1.0;
  const T threshold = sides.threshold;
  T above{0}, below{0};
  std::uint32_t n_above = 0;
  CodeWriter writer{codes, n, 0};
  const std::uint32_t groups = (n + 31) / 32;
  MQ_UNROLL(8)
  for (std::uint32_t g = 0; g < groups; ++g) {
    const T e = v[32 * g + lane()];
    const T term = kHuge ? e * static_cast<T>(kScale) : e;
    const bool at_least = e >= threshold;
    if (at_least)
      above += term;
    else
      below += term;
    const std::uint32_t word = ballot(at_least) & group_bits(g, n);
    n_above += count_ones(word);
    if (codes != nullptr) writer.put(g, word);
  }
  const double all_above = total_of(above), all_below = total_of(below);
  if (!is_finite(all_above) || !is_finite(all_below)) return false;
  sides.join(kernels::onebit::mean_of(all_below, n - n_above, kScale), n - n_above,
             kernels::onebit::mean_of(all_above, n_above, kScale), n_above);
  return true;
}
template <class T>
MQ_DEVICE bool measure(const T* v, std::uint32_t n, kernels::onebit::Sides<T>& sides, std::byte* codes) {
  return sum_sides<T, false>(v, n, sides, codes) || sum_sides<T, true>(v, n, sides, codes);
}

// What stands for the elements that are not finite: see the host's nonfinite_of.
struct Kinds {
  std::uint64_t minus, nan, plus;
  MQ_DEVICE std::uint64_t all() const { return minus + nan + plus; }
  template <class T>
  MQ_DEVICE T mark() const {
    return all() == plus ? infinite_value<T>() : all() == minus ? -infinite_value<T>() : nan_value<T>();
  }
};
template <class T>
MQ_DEVICE Kinds kinds_of(const T* v, std::uint32_t n) {
  std::uint32_t minus = 0, nan = 0, plus = 0;
  for (std::uint32_t i = lane(); i < n; i += 32) {
    const T e = v[i];
    minus += e == -infinite_value<T>();
    nan += e != e;
    plus += e == infinite_value<T>();
  }
  return {warp_sum(minus), warp_sum(nan), warp_sum(plus)};
}

// Before the codes of a block; any address.
template <class T>
MQ_DEVICE void store_means(std::byte* wire, T below, T above) {
  if (lane() < 2) store(wire + lane() * sizeof(T), lane() == 0 ? below : above);
}

// The bits of a block that is marked, and what stays of it: all that is finite.
template <class T>
MQ_DEVICE void mark_elements(const T* v, std::byte* residual, std::uint32_t n, kernels::Feedback feedback,
                             std::byte* codes) {
  CodeWriter writer{codes, n, 0};
  for (std::uint32_t g = 0; g < (n + 31) / 32; ++g) {
    const std::uint32_t i = 32 * g + lane();
    const T e = v[i];
    writer.put(g, ballot(!is_finite(e)) & group_bits(g, n));
    if (feedback == kernels::Feedback::none || i >= n) continue;
    T kept = is_finite(e) ? e : T{0};
    std::byte* const at = residual + std::size_t{i} * sizeof(T);
    if (feedback == kernels::Feedback::deposit) kept = load<T>(at) + kept;
    store(at, kept);
  }
}

// The new residual: what the receivers will not see of v.
template <class T, bool kDeposit>
MQ_DEVICE void keep_errors(const T* v, std::byte* residual, std::uint32_t n, T threshold,
                           kernels::onebit::Means<T> means) {
  std::uint32_t begin = 0;
  if (packs<T>(residual)) {
    begin = n / kPack * kPack;
    MQ_UNROLL(4)
    for (std::uint32_t i = lane() * kPack; i < begin; i += 32 * kPack) {
      const Pack<T> e = *reinterpret_cast<const Pack<T>*>(v + i);
      std::byte* const at = residual + std::size_t{i} * sizeof(T);
      Pack<T> r{};
      if constexpr (kDeposit) r = load_pack<T>(at);
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack; ++j) {
        const T error = e.of[j] - (e.of[j] >= threshold ? means.above : means.below);
        r.of[j] = kDeposit ? r.of[j] + error : error;
      }
      store_pack(at, r);
    }
  }
  MQ_UNROLL(8)
  for (std::uint32_t i = begin + lane(); i < n; i += 32) {
    std::byte* const at = residual + std::size_t{i} * sizeof(T);
    const T error = v[i] - (v[i] >= threshold ? means.above : means.below);
    store(at, kDeposit ? load<T>(at) + error : error);
  }
}
template <class T>
MQ_DEVICE void keep_errors(const T* v, std::byte* residual, std::uint32_t n, T threshold,
                           kernels::onebit::Means<T> means, kernels::Feedback feedback) {
  if (feedback == kernels::Feedback::carry)
    keep_errors<T, false>(v, residual, n, threshold, means);
  else if (feedback == kernels::Feedback::deposit)
    keep_errors<T, true>(v, residual, n, threshold, means);
}

// The shared memory of this warp.
template <class T>
MQ_DEVICE T* kept_elements(std::uint32_t room) {
  return reinterpret_cast<T*>(dynamic_shared()) + std::size_t{warp()} * room;
}

// Elements that a block of the cut has of a vector of n.
MQ_DEVICE std::uint64_t length_of(const kernels::Cut& cut, std::uint64_t block, std::uint64_t n) {
  return smaller<std::uint64_t>(cut.length(block), n - cut.begin(block));
}

// Encodes one block; gives its non-finite elements.
template <class T>
MQ_DEVICE std::uint64_t encode_block(const kernels::onebit::EncodeBlocks& a, std::uint64_t index, T* v) {
  using kernels::Feedback;
  const std::uint64_t offset = a.cut.begin(index) * sizeof(T);
  const auto n = static_cast<std::uint32_t>(length_of(a.cut, index, a.n));
  std::byte* const residual = a.feedback == Feedback::none ? nullptr : a.residual + offset;
  std::byte* const wire = a.wire + kernels::onebit::wire_offset<T>(a.cut, index);
  std::byte* const codes = wire + sizeof(kernels::onebit::Means<T>);
  fill(v, a.x + offset, a.feedback == Feedback::carry ? residual : nullptr, n);
  kernels::onebit::Sides<T> sides;
  bool finite = measure(v, n, sides, codes);
  if (finite && sides.again(a.at_mean)) finite = measure(v, n, sides, codes);
  std::uint64_t nonfinite = 0;
  if (finite) {
    const kernels::onebit::Means<T> means = sides.means();
    store_means(wire, means.below, means.above);
    keep_errors(v, residual, n, sides.threshold, means, a.feedback);
  } else {
    const Kinds kinds = kinds_of(v, n);
    nonfinite = kinds.all();
    store_means(wire, a.keeps ? T{0} : nan_value<T>(), kinds.mark<T>());
    mark_elements(v, residual, n, a.feedback, codes);
  }
  warp_sync();  // the next block's elements go where these are
  return nonfinite;
}

template <class T>
MQ_DEVICE void encode_blocks(const kernels::onebit::EncodeBlocks& a) {
  T* const v = kept_elements<T>(a.room);
  std::uint64_t nonfinite = 0;
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < a.blocks;
       i += std::uint64_t{blocks()} * warps())
    nonfinite += encode_block(a, i, v);
  store_count(a.counts, lane() == 0 ? nonfinite : 0);
}

// The padding of the last byte is 0 in everything encode writes.
MQ_DEVICE bool padding_ok(const std::byte* codes, std::uint64_t n) {
  return n % 8 == 0 || (static_cast<unsigned>(codes[n / 8]) >> (n % 8)) == 0;
}

// n elements of a block, from its element `first`, a multiple of 128, on.
template <class T, bool kAdd>
MQ_DEVICE void decode_part(const kernels::onebit::DecodeBlocks& a, std::uint64_t begin, std::uint64_t first,
                           std::uint32_t n, kernels::onebit::Means<T> means, const std::byte* codes) {
  const std::byte* const base = kAdd ? a.base + (begin + first) * sizeof(T) : nullptr;
  std::byte* const x = a.x + (begin + first) * sizeof(T);
  codes += first / 8;
  std::uint32_t done = 0;
  if (packs<T>(x) && packs<T>(base)) {
    done = n / (32 * kPack) * (32 * kPack);
    MQ_UNROLL(4)
    for (std::uint32_t i = lane() * kPack; i < done; i += 32 * kPack) {
      const std::uint32_t bits = static_cast<std::uint32_t>(codes[i / 8]) >> (i % 8);
      Pack<T> r{};
      if constexpr (kAdd) r = load_pack<T>(base + std::size_t{i} * sizeof(T));
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack; ++j) {
        const T decoded = (bits >> j & 1) != 0 ? means.above : means.below;
        r.of[j] = kAdd ? joined_sum(r.of[j], decoded) : decoded;
      }
      store_pack(x + std::size_t{i} * sizeof(T), r);
    }
  }
  MQ_UNROLL(8)
  for (std::uint32_t i = done + lane(); i < n; i += 32) {
    const std::uint32_t bits = static_cast<std::uint32_t>(codes[i / 8]) >> (i % 8);
    T v = (bits & 1) != 0 ? means.above : means.below;
    if constexpr (kAdd) v = joined_sum(load<T>(base + std::size_t{i} * sizeof(T)), v);
    store(x + std::size_t{i} * sizeof(T), v);
  }
}

// A warp takes parts of blocks of at most kSumPiece elements.
template <class T, bool kAdd>
MQ_DEVICE void decode_blocks(const kernels::onebit::DecodeBlocks& a) {
  using namespace kernels::onebit;
  const Pieces pieces{a.cut};
  const std::uint64_t count = pieces.count(a.n);
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < count;
       i += std::uint64_t{blocks()} * warps()) {
    const std::uint64_t index = pieces.block_of(i), begin = a.cut.begin(index);
    const std::uint64_t first = (i - pieces.first(index)) * kernels::kSumPiece;
    const std::uint64_t n = length_of(a.cut, index, a.n);
    const std::byte* const wire = a.wire + wire_offset<T>(a.cut, index);
    const std::byte* const codes = wire + sizeof(Means<T>);
    if (first == 0 && lane() == 0 && !padding_ok(codes, n)) *a.malformed = 1;
    decode_part<T, kAdd>(a, begin, first,
                         static_cast<std::uint32_t>(smaller<std::uint64_t>(n - first, kernels::kSumPiece)),
                         {load<T>(wire), load<T>(wire + sizeof(T))}, codes);
  }
}

template <class T>
MQ_DEVICE void decode_onebit(const kernels::onebit::DecodeBlocks& a) {
  if (a.base != nullptr)
    decode_blocks<T, true>(a);
  else
    decode_blocks<T, false>(a);
}

}  // namespace mq::simt

MQ_KERNEL(onebit_f32_encode, mq::kernels::onebit::EncodeBlocks, 128) { mq::simt::encode_blocks<float>(args); }
MQ_KERNEL(onebit_f64_encode, mq::kernels::onebit::EncodeBlocks, 128) {
  mq::simt::encode_blocks<double>(args);
}
MQ_KERNEL(onebit_f32_decode, mq::kernels::onebit::DecodeBlocks, 256) { mq::simt::decode_onebit<float>(args); }
MQ_KERNEL(onebit_f64_decode, mq::kernels::onebit::DecodeBlocks, 256) {
  mq::simt::decode_onebit<double>(args);
}
