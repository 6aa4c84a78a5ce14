// Radix selection by one thread block: finds the k-th greatest key from its upper bits down, with a histogram of
// 11 bits at a time.
#pragma once

#include "kernels/cuda/sparse_block.cuh"

namespace mq::kernels::cuda {

inline constexpr std::uint32_t kDigitBits = 11, kBins = 1u << kDigitBits;
template <class T>
inline constexpr std::uint32_t kKeyBits = 8 * sizeof(T) - 1;

// The key and the sign of an element. `is`: whether it is finite and not 0.
template <class T>
struct Magnitude {
  Key<T> key;
  bool is, above;
  explicit MQ_DEVICE Magnitude(T v) {
    const Key<T> bits = key_of(v);
    key = bits & ~kSignBit<T>;
    above = bits < kSignBit<T>;
    is = key - 1 < kMaxKey<T>;
  }
  MQ_DEVICE bool of(Side side) const { return is && (side == kBoth || (side == kAbove) == above); }
};

// Radix selection of the k-th greatest key of a side.
template <class T>
struct RadixSearch {
  Side side;
  std::uint32_t k;    // rank among the keys whose upper bits are `prefix`
  Key<T> prefix = 0;  // the known bits, from bit `shift` on
  std::uint32_t shift = kKeyBits<T>, next = kKeyBits<T> - kDigitBits;
  std::uint32_t found = 0;  // number of elements with this prefix

  MQ_DEVICE RadixSearch(Side s, std::uint32_t rank) : side(s), k(rank) {}
  static MQ_DEVICE void clear(std::uint32_t* bins) {
    for (std::uint32_t i = thread(); i < kBins; i += threads()) bins[i] = 0;
    barrier();
  }
  MQ_DEVICE void add(std::uint32_t* bins, T v) const {
    const Magnitude<T> m(v);
    if (m.of(side) && m.key >> shift == prefix)
      atomic_add(bins + static_cast<std::uint32_t>(m.key >> next & (kBins - 1)), 1);
  }
  // Number of elements in the bins.
  static MQ_DEVICE std::uint32_t total(const std::uint32_t* bins) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = thread(); i < kBins; i += threads()) sum += bins[i];
    return block_sum(sum);
  }
  // Selects the bin of the k-th element. False if there are fewer than k; then nothing changes.
  MQ_DEVICE bool take_bin(const std::uint32_t* bins) {
    struct Bin {
      std::uint32_t index, rank, count;
    };
    auto& bin = shared<Bin>();
    const std::uint32_t each = (kBins + threads() - 1) / threads();
    const std::uint32_t begin = smaller(thread() * each, kBins), end = smaller(begin + each, kBins);
    std::uint32_t sum = 0, all;
    for (std::uint32_t r = begin; r < end; ++r) sum += bins[kBins - 1 - r];
    std::uint32_t before = block_before(sum, all);
    if (k == 0 || k > all) return false;
    if (before < k && k <= before + sum) {
      std::uint32_t r = begin;
      for (; k > before + bins[kBins - 1 - r]; ++r) before += bins[kBins - 1 - r];
      bin = {kBins - 1 - r, k - before, bins[kBins - 1 - r]};
    }
    barrier();
    prefix = prefix << (shift - next) | bin.index;
    k = bin.rank;
    found = bin.count;
    shift = next;
    next = shift > kDigitBits ? shift - kDigitBits : 0;
    barrier();
    return true;
  }
  // Finds the next digit. each(visit) visits all elements, or at least those that have this prefix.
  template <class Each>
  MQ_DEVICE bool next_digit(std::uint32_t* bins, const Each& each) {
    clear(bins);
    each([&](T v) { add(bins, v); });
    barrier();
    return take_bin(bins);
  }
  template <class Each>
  MQ_DEVICE bool all_digits(std::uint32_t* bins, const Each& each) {
    MQ_UNROLL(1)
    while (shift > 0)
      if (!next_digit(bins, each)) return false;
    return true;
  }
};

}  // namespace mq::kernels::cuda
