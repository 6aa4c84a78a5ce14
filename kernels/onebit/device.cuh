// onebit on a GPU: one warp per block. Lanes correspond to the host's 32 lanes, so sums have the same bits.
// v = x + residual is read once, 16 bytes per thread if the addresses allow it, and kept in shared memory;
// sums, codes and errors are computed from there. Means use the host's arithmetic (kernels/onebit/wire.hpp).
// The wire may be pinned host memory at any address, so it is built in shared memory too and written once.
#pragma once

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/onebit/device.hpp"

namespace mq::simt {

// Copies v of elements `begin` to n into shared memory, one by one.
template <class T, bool kCarry, bool kWhole>
MQ_DEVICE void fill_rest(T* v, const std::byte* x, const std::byte* residual, std::uint32_t begin,
                         std::uint32_t n) {
  struct Both {
    T x, r;
  };
  in_batches<kElementBatch<T, kWhole>>(
      begin + lane(), n, 32,
      [&](std::uint32_t i) {
        return Both{element<T, kWhole>(x, i), kCarry ? element<T, kWhole>(residual, i) : T{0}};
      },
      [&](std::uint32_t i, Both e) { v[i] = kCarry ? sum_of(e.x, e.r) : e.x; });
}
// Copies v of n elements into shared memory, followed by +0 up to the next multiple of 32.
template <class T, bool kCarry>
MQ_DEVICE void fill(T* v, const std::byte* x, const std::byte* residual, std::uint32_t n) {
  struct Both {
    Pack<T> x, r;
  };
  constexpr std::uint32_t kLoads = 8;  // of 16 bytes per lane, in flight at once
  std::uint32_t begin = 0;
  if (packs<T>(x) && (!kCarry || packs<T>(residual))) {
    begin = n / kPack<T> * kPack<T>;
    in_batches<kCarry ? kLoads / 2 : kLoads>(
        lane() * kPack<T>, begin, 32 * kPack<T>,
        [&](std::uint32_t i) {
          return Both{load_pack<T>(x + std::size_t{i} * sizeof(T)),
                      kCarry ? load_pack<T>(residual + std::size_t{i} * sizeof(T)) : Pack<T>{}};
        },
        [&](std::uint32_t i, const Both& e) {
          *reinterpret_cast<Pack<T>*>(v + i) = kCarry ? sum_of(e.x, e.r) : e.x;
        });
  }
  if (aligned(x, sizeof(T)) && (!kCarry || aligned(residual, sizeof(T))))
    fill_rest<T, kCarry, true>(v, x, residual, begin, n);
  else
    fill_rest<T, kCarry, false>(v, x, residual, begin, n);
  if (const std::uint32_t i = n / 32 * 32 + lane(); i >= n && n % 32 != 0) v[i] = T{0};
  warp_sync();
}
// residual: null if v = x.
template <class T>
MQ_DEVICE void fill(T* v, const std::byte* x, const std::byte* residual, std::uint32_t n) {
  if (residual != nullptr)
    fill<T, true>(v, x, residual, n);
  else
    fill<T, false>(v, x, residual, n);
}

// The bits of the lanes of group g that exist in a block of n elements.
MQ_DEVICE std::uint32_t group_bits(std::uint32_t g, std::uint32_t n) {
  return n - 32 * g >= 32 ? kAll : (1u << (n - 32 * g)) - 1;
}

// word_of(g) returns a ballot of group g. If `codes` is not null, stores these words there, in shared memory,
// with the bits after element n cleared: 32 groups at a time, one word per lane. Returns the number of ones.
template <class WordOf>
MQ_DEVICE std::uint32_t each_word(std::uint32_t n, std::uint32_t* codes, const WordOf& word_of) {
  std::uint32_t ones = 0;
  for (std::uint32_t first = 0; 32 * first < n; first += 32) {
    std::uint32_t mine = 0;
    const std::uint32_t left = n - 32 * first;
    if (left >= 32 * 32) {
      MQ_UNROLL(8)
      for (std::uint32_t g = 0; g < 32; ++g) {
        const std::uint32_t word = word_of(first + g);
        mine = lane() == g ? word : mine;
      }
    } else {
      for (std::uint32_t g = 0; 32 * g < left; ++g) {
        const std::uint32_t word = word_of(first + g) & group_bits(first + g, n);
        mine = lane() == g ? word : mine;
      }
    }
    ones += count_ones(mine);
    if (codes != nullptr && 32 * lane() < left) codes[first + lane()] = mine;
  }
  return warp_sum(ones);
}

// The host's SplitSum::total: lanes are joined in double by halving. Every lane gets the result.
template <class T>
MQ_DEVICE double total_of(T sum) {
  double total = static_cast<double>(sum);
  for (std::uint32_t d = 16; d > 0; d /= 2) total = total + shuffle_down(total, d);
  return shuffle(total, 0);
}

// Sums both sides of at most kSumPiece elements and joins the sums to `sides`. False if a sum is not finite;
// then `sides` is unchanged. codes: null, or where the bits go in shared memory.
template <class T, bool kHuge>
MQ_DEVICE bool sum_sides(const T* v, std::uint32_t n, kernels::onebit::Sides<T>& sides,
                         std::uint32_t* codes) {
  constexpr double kScale = kHuge ? 0x1p-13 : 1.0;
  const T threshold = sides.threshold;
  T above{0}, below{0};
  const std::uint32_t n_above = each_word(n, codes, [&](std::uint32_t g) {
    const T e = v[32 * g + lane()];
    const T term = kHuge ? e * static_cast<T>(kScale) : e;
    const bool at_least = e >= threshold;
    if (at_least)
      above += term;
    else
      below += term;
    return ballot(at_least);
  });
  const double all_above = total_of(above), all_below = total_of(below);
  if (!is_finite(all_above) || !is_finite(all_below)) return false;
  sides.join(kernels::onebit::mean_of(all_below, n - n_above, kScale), n - n_above,
             kernels::onebit::mean_of(all_above, n_above, kScale), n_above);
  return true;
}
template <class T>
MQ_DEVICE bool measure(const T* v, std::uint32_t n, kernels::onebit::Sides<T>& sides, std::uint32_t* codes) {
  return sum_sides<T, false>(v, n, sides, codes) || sum_sides<T, true>(v, n, sides, codes);
}

// Counts of the non-finite elements, and the value that represents them; see the host's nonfinite_of.
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

// Writes the bits of a marked block. All finite elements stay in the residual.
template <class T>
MQ_DEVICE void mark_elements(const T* v, std::byte* residual, std::uint32_t n, kernels::Feedback feedback,
                             std::uint32_t* codes) {
  each_word(n, codes, [&](std::uint32_t g) { return ballot(!is_finite(v[32 * g + lane()])); });
  if (feedback == kernels::Feedback::none) return;
  for (std::uint32_t i = lane(); i < n; i += 32) {
    T kept = is_finite(v[i]) ? v[i] : T{0};
    std::byte* const at = residual + std::size_t{i} * sizeof(T);
    if (feedback == kernels::Feedback::deposit) kept = deposited(load<T>(at), kept);
    store(at, kept);
  }
}

// The part of v that the receivers will not decode.
template <class T>
struct ErrorOf {
  T threshold;
  kernels::onebit::Means<T> means;
  MQ_DEVICE T operator()(T v) const { return v - (v >= threshold ? means.above : means.below); }
};
template <class T, bool kDeposit, bool kWhole>
MQ_DEVICE void keep_rest(const T* v, std::byte* residual, std::uint32_t begin, std::uint32_t n,
                         ErrorOf<T> error) {
  in_batches<kElementBatch<T, kWhole>>(
      begin + lane(), n, 32,
      [&](std::uint32_t i) { return kDeposit ? element<T, kWhole>(residual, i) : T{0}; },
      [&](std::uint32_t i, T r) {
        set_element<T, kWhole>(residual, i, kDeposit ? deposited(r, error(v[i])) : error(v[i]));
      });
}
// Computes the new residual.
template <class T, bool kDeposit>
MQ_DEVICE void keep_errors(const T* v, std::byte* residual, std::uint32_t n, ErrorOf<T> error) {
  std::uint32_t begin = 0;
  if (packs<T>(residual)) {
    begin = n / kPack<T> * kPack<T>;
    in_batches<4>(
        lane() * kPack<T>, begin, 32 * kPack<T>,
        [&](std::uint32_t i) {
          return kDeposit ? load_pack<T>(residual + std::size_t{i} * sizeof(T)) : Pack<T>{};
        },
        [&](std::uint32_t i, Pack<T> r) {
          const Pack<T> e = *reinterpret_cast<const Pack<T>*>(v + i);
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kPack<T>; ++j)
            r.of[j] = kDeposit ? deposited(r.of[j], error(e.of[j])) : error(e.of[j]);
          store_pack(residual + std::size_t{i} * sizeof(T), r);
        });
  }
  if (aligned(residual, sizeof(T)))
    keep_rest<T, kDeposit, true>(v, residual, begin, n, error);
  else
    keep_rest<T, kDeposit, false>(v, residual, begin, n, error);
}
template <class T>
MQ_DEVICE void keep_errors(const T* v, std::byte* residual, std::uint32_t n, T threshold,
                           kernels::onebit::Means<T> means, kernels::Feedback feedback) {
  if (feedback == kernels::Feedback::carry)
    keep_errors<T, false>(v, residual, n, ErrorOf<T>{threshold, means});
  else if (feedback == kernels::Feedback::deposit)
    keep_errors<T, true>(v, residual, n, ErrorOf<T>{threshold, means});
}

// The shared memory of this warp: elements, and the wire of a block or of a piece of a block.
template <class T>
struct Kept {
  T* v;
  kernels::onebit::Means<T>* means;
  std::uint32_t* codes;  // directly after the means

  MQ_DEVICE explicit Kept(std::uint32_t room)
      : v(reinterpret_cast<T*>(dynamic_shared() + warp() * kernels::onebit::warp_bytes<T>(room))),
        means(reinterpret_cast<kernels::onebit::Means<T>*>(v + room)),
        codes(reinterpret_cast<std::uint32_t*>(means + 1)) {}
  // Writes the codes of n elements, and before them the means if with_means. Afterwards v may be overwritten.
  MQ_DEVICE void write(std::byte* wire, bool with_means, kernels::onebit::Means<T> both,
                       std::uint32_t n) const {
    if (with_means && lane() == 0) *means = both;
    warp_sync();
    const auto bytes = static_cast<std::uint32_t>(kernels::onebit::code_bytes(n));
    if (with_means)
      copy_bytes(wire, reinterpret_cast<const std::byte*>(means),
                 static_cast<std::uint32_t>(sizeof(*means)) + bytes, lane(), 32);
    else
      copy_bytes(wire, reinterpret_cast<const std::byte*>(codes), bytes, lane(), 32);
    warp_sync();
  }
};

// Number of elements of a block of the cut, in a vector of n.
MQ_DEVICE std::uint64_t length_of(const kernels::Cut& cut, std::uint64_t block, std::uint64_t n) {
  return smaller<std::uint64_t>(cut.length(block), n - cut.begin(block));
}

// Encodes one block. Returns the number of its non-finite elements.
template <class T>
MQ_DEVICE std::uint64_t encode_block(const kernels::onebit::EncodeBlocks& a, std::uint64_t index,
                                     const Kept<T>& kept) {
  using kernels::Feedback;
  T* const v = kept.v;
  const std::uint64_t offset = a.cut.begin(index) * sizeof(T);
  const auto n = static_cast<std::uint32_t>(length_of(a.cut, index, a.n));
  std::byte* const residual = a.feedback == Feedback::none ? nullptr : a.residual + offset;
  std::byte* const wire = a.wire + kernels::onebit::wire_offset<T>(a.cut, index);
  fill(v, a.x + offset, a.feedback == Feedback::carry ? residual : nullptr, n);
  kernels::onebit::Sides<T> sides;
  bool finite = measure(v, n, sides, kept.codes);
  if (finite && sides.again(a.at_mean)) finite = measure(v, n, sides, kept.codes);
  std::uint64_t nonfinite = 0;
  kernels::onebit::Means<T> means;
  if (finite) {
    means = sides.means();
    keep_errors(v, residual, n, sides.threshold, means, a.feedback);
  } else {
    const Kinds kinds = kinds_of(v, n);
    nonfinite = kinds.all();
    means = {a.keeps ? T{0} : nan_value<T>(), kinds.mark<T>()};
    mark_elements(v, residual, n, a.feedback, kept.codes);
  }
  kept.write(wire, true, means, n);
  return nonfinite;
}

template <class T>
MQ_DEVICE void encode_blocks(const kernels::onebit::EncodeBlocks& a) {
  const Kept<T> kept(a.room);
  std::uint64_t nonfinite = 0;
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < a.blocks;
       i += std::uint64_t{blocks()} * warps())
    nonfinite += encode_block(a, i, kept);
  end_encode(a.encoded, a.bytes, lane() == 0 ? nonfinite : 0);
}

// Decodes elements `begin` to n, one by one.
template <class T, bool kAdd, bool kWhole>
MQ_DEVICE void decode_rest(const std::byte* codes, const std::byte* base, std::byte* x, std::uint32_t begin,
                           std::uint32_t n, kernels::onebit::Means<T> means) {
  in_batches<kElementBatch<T, kWhole>>(
      begin + lane(), n, 32,
      [&](std::uint32_t i) {
        const bool is_above = (static_cast<std::uint32_t>(codes[i / 8]) >> (i % 8) & 1) != 0;
        const T decoded = is_above ? means.above : means.below;
        return kAdd ? joined_sum(element<T, kWhole>(base, i), decoded) : decoded;
      },
      [&](std::uint32_t i, T v) { set_element<T, kWhole>(x, i, v); });
}
template <class T, bool kAdd>
MQ_DEVICE void decode_part(const std::byte* codes, const std::byte* base, std::byte* x, std::uint32_t n,
                           kernels::onebit::Means<T> means) {
  struct Both {
    Pack<T> base;
    std::uint32_t bits;
  };
  std::uint32_t done = 0;
  if (packs<T>(x) && packs<T>(base)) {
    done = n / kPack<T> * kPack<T>;
    in_batches<4>(
        lane() * kPack<T>, done, 32 * kPack<T>,
        [&](std::uint32_t i) {
          return Both{kAdd ? load_pack<T>(base + std::size_t{i} * sizeof(T)) : Pack<T>{},
                      static_cast<std::uint32_t>(codes[i / 8]) >> (i % 8)};
        },
        [&](std::uint32_t i, Both e) {
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kPack<T>; ++j) {
            const T decoded = (e.bits >> j & 1) != 0 ? means.above : means.below;
            e.base.of[j] = kAdd ? joined_sum(e.base.of[j], decoded) : decoded;
          }
          store_pack(x + std::size_t{i} * sizeof(T), e.base);
        });
  }
  if (aligned(x, sizeof(T)) && aligned(base, sizeof(T)))
    decode_rest<T, kAdd, true>(codes, base, x, done, n, means);
  else
    decode_rest<T, kAdd, false>(codes, base, x, done, n, means);
}

// The codes of a piece in the shared memory of each warp. The wire may be in host memory, from where each
// read takes longer than a microsecond. So all of them are under way at the same time.
struct Codes {
  std::uint32_t of_warp[kernels::onebit::kDecodeWarps][kernels::kSumPiece / 32 + 1];
};

// Each warp takes pieces of blocks, of at most kSumPiece elements.
template <class T, bool kAdd>
MQ_DEVICE void decode_blocks(const kernels::onebit::DecodeBlocks& a) {
  using namespace kernels::onebit;
  auto* const codes = reinterpret_cast<std::byte*>(shared<Codes>().of_warp[warp()]);
  const Pieces pieces{a.cut};
  const std::uint64_t count = pieces.count(a.n);
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < count;
       i += std::uint64_t{blocks()} * warps()) {
    const std::uint64_t index = pieces.block_of(i), begin = a.cut.begin(index);
    const std::uint64_t first = (i - pieces.first(index)) * kernels::kSumPiece;
    const std::uint64_t left = length_of(a.cut, index, a.n) - first;
    const auto n = static_cast<std::uint32_t>(smaller<std::uint64_t>(left, kernels::kSumPiece));
    const std::byte* const wire = a.wire + wire_offset<T>(a.cut, index);
    const Means<T> means{load<T>(wire), load<T>(wire + sizeof(T))};
    fetch_bytes(codes, wire + sizeof means + first / 8, static_cast<std::uint32_t>(code_bytes(n)));
    warp_sync();
    // encode writes 0 to the padding bits of the last byte.
    if (lane() == 0 && n % 8 != 0 && static_cast<std::uint32_t>(codes[n / 8]) >> (n % 8) != 0)
      *a.malformed = 1;
    const std::uint64_t offset = (begin + first) * sizeof(T);
    decode_part<T, kAdd>(codes, kAdd ? a.base + offset : nullptr, a.x + offset, n, means);
    warp_sync();
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

MQ_KERNEL_RESIDENT(onebit_f32_encode, mq::kernels::onebit::EncodeBlocks, 128, 6) {
  mq::simt::encode_blocks<float>(args);
}
MQ_KERNEL_RESIDENT(onebit_f64_encode, mq::kernels::onebit::EncodeBlocks, 128, 4) {
  mq::simt::encode_blocks<double>(args);
}
MQ_KERNEL_RESIDENT(onebit_f32_decode, mq::kernels::onebit::DecodeBlocks, 128, 8) {
  mq::simt::decode_onebit<float>(args);
}
MQ_KERNEL_RESIDENT(onebit_f64_decode, mq::kernels::onebit::DecodeBlocks, 128, 6) {
  mq::simt::decode_onebit<double>(args);
}
