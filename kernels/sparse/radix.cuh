// Radix selection by one thread block: finds the k-th greatest key from its upper bits down, with a histogram
// of 11 bits at a time.
#pragma once

#include "kernels/sparse/block.cuh"

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
    for (std::uint32_t i = 4 * thread(); i < kBins; i += 4 * threads())
      store_pack(reinterpret_cast<std::byte*>(bins + i), Pack<std::uint32_t>{});
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
  // Selects the bin of the k-th element. False if there are fewer than k; then nothing changes. The warps sum
  // chunks of bins, four bins per lane. Then each warp searches the chunk that has the k-th element. Chunk 0
  // and lane 0 have the greatest keys.
  MQ_DEVICE bool take_bin(const std::uint32_t* bins) {
    constexpr std::uint32_t kChunk = 4 * 32, kChunks = kBins / kChunk;
    auto& sums = shared<WarpSlots<std::uint32_t>>();
    const auto first_of = [](std::uint32_t chunk) { return kBins - kChunk * chunk - 4 * lane() - 4; };
    const auto four_from = [&](std::uint32_t first) {
      return load_pack<std::uint32_t>(reinterpret_cast<const std::byte*>(bins + first));
    };
    const auto sum_of_four = [](const Pack<std::uint32_t>& v) {
      return v.of[0] + v.of[1] + v.of[2] + v.of[3];
    };
    for (std::uint32_t c = warp(); c < kChunks; c += warps()) {
      const std::uint32_t sum = warp_sum(sum_of_four(four_from(first_of(c))));
      if (lane() == 0) sums.of[c] = sum;
    }
    barrier();
    std::uint32_t all, in_chunk;
    const std::uint32_t before_chunk = warp_before(lane() < kChunks ? sums.of[lane()] : 0u, all);
    const bool some = k > 0 && k <= all;
    if (some) {
      const std::uint32_t chunk = last_lane(before_chunk < k), first = first_of(chunk);
      const Pack<std::uint32_t> four = four_from(first);
      const std::uint32_t before = shuffle(before_chunk, chunk) + warp_before(sum_of_four(four), in_chunk);
      std::uint32_t index = first + 3, rank = k - before, count = four.of[3];
      MQ_UNROLL(3)
      for (std::uint32_t j = 3; j-- > 0;)
        if (rank > count) {
          rank -= count;
          count = four.of[j];
          index = first + j;
        }
      const std::uint32_t in = last_lane(before < k);
      prefix = prefix << (shift - next) | shuffle(index, in);
      k = shuffle(rank, in);
      found = shuffle(count, in);
      shift = next;
      next = shift > kDigitBits ? shift - kDigitBits : 0;
    }
    barrier();
    return some;
  }
  // Finds the next digit. each(visit) visits all elements, or at least those that have this prefix.
  template <class Each>
  MQ_DEVICE bool next_digit(std::uint32_t* bins, const Each& each) {
    clear(bins);
    each([&](T v) { add(bins, v); });
    barrier();
    return take_bin(bins);
  }
  // The last lane for which `is` holds. There must be one.
  static MQ_DEVICE std::uint32_t last_lane(bool is) { return 31 - count_leading_zeros(ballot(is)); }
  template <class Each>
  MQ_DEVICE bool all_digits(std::uint32_t* bins, const Each& each) {
    MQ_UNROLL(1)
    while (shift > 0)
      if (!next_digit(bins, each)) return false;
    return true;
  }
};

}  // namespace mq::kernels::cuda
