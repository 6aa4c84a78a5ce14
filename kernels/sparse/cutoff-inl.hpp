// How many elements of a block a sparse codec sends, and which. Host and device rows share this file. It is
// included once per instruction set, and once for the device, after keys-inl.hpp.
#pragma once
#include "kernels/sparse/keys-inl.hpp"
#include "kernels/ternary/format-inl.hpp"
#include "kernels/valued/format-inl.hpp"

enum Side { kBelow, kAbove, kBoth };

// A finite element is sent if its magnitude exceeds `bound`. It is also sent if its magnitude equals `bound`
// and fewer than `ties` such elements of its sign came before it.
template <class T>
struct Cutoff {
  T bound;
  std::size_t ties;
};

inline constexpr std::size_t kMaxSparseBlock = 65536;

// The parameters of threshold, adaptive and topk, by name.
struct ThresholdParams {
  double tau;
  bool pow2;
  std::size_t block;
  TernaryFormat format;
  explicit constexpr ThresholdParams(const Params& p)
      : tau(p.value[0]),
        pow2(p.value[2] != 0),
        block(static_cast<std::size_t>(p.value[3])),
        format(static_cast<TernaryFormat>(p.value[4])) {}
  // The position, among n magnitudes in descending order, of the one that becomes tau.
  static MQ_INLINE std::size_t rank(const Params& p, std::size_t n) {
    return std::max<std::size_t>(1, static_cast<std::size_t>((1 - p.value[1]) * static_cast<double>(n)));
  }
  // The value that an entry represents.
  template <class T>
  MQ_INLINE T value() const {
    if (!pow2) return static_cast<T>(tau);
    int exponent;
    const double fraction = std::frexp(tau, &exponent);  // in [0.5, 1)
    return static_cast<T>(std::ldexp(1.0, fraction < 0.75 ? exponent - 1 : exponent));
  }
};

enum class Search : std::uint32_t { exact, approx, dryden2016 };
struct AdaptiveParams {
  double pi;
  std::size_t block;
  Search search;
  bool separate;
  TernaryFormat format;
  explicit constexpr AdaptiveParams(const Params& p)
      : pi(p.value[0]),
        block(static_cast<std::size_t>(p.value[1])),
        search(static_cast<Search>(p.value[2])),
        separate(p.value[3] == 1),
        format(static_cast<TernaryFormat>(p.value[4])) {}
};

enum class TopKSelect : std::uint32_t { exact, approx, sample };
struct TopKParams {
  double k;
  std::size_t block;
  TopKSelect select;
  ValuedFormat format;
  explicit constexpr TopKParams(const Params& p)
      : k(p.value[0]),
        block(static_cast<std::size_t>(p.value[1])),
        select(static_cast<TopKSelect>(p.value[2])),
        format(static_cast<ValuedFormat>(p.value[3])) {}

  // ceil(k n). A share such as 0.07 has no exact binary value, and its product with n may be slightly more
  // than an integer (7 % of 100). So the product is reduced slightly before rounding up.
  MQ_INLINE std::size_t share(std::size_t n) const {
    constexpr double kRounding = 1 - 0x1p-50;
    return std::min(n, static_cast<std::size_t>(std::ceil(k * static_cast<double>(n) * kRounding)));
  }
  // Largest number of finite elements that are sent of n.
  MQ_INLINE std::size_t most(std::size_t n) const {
    const std::size_t m = share(n);
    return select == TopKSelect::exact ? m : std::min(n, 2 * m);
  }
};

// round(n / pi), but at least one if n > 0.
MQ_HD MQ_INLINE std::size_t adaptive_share(std::size_t n, double pi) {
  const auto k = static_cast<std::size_t>(static_cast<double>(n) / pi + 0.5);
  return n == 0 ? 0 : k > 1 ? k : 1;
}

// Whether an inexact bound is good enough: it selects from half to twice as many elements as requested.
MQ_HD MQ_INLINE bool near_enough(std::size_t count, std::size_t k) {
  return 2 * count >= k && count <= 2 * k;
}

// The sample of a block: element position(i) for each i below n / kStride. The position within each stride
// varies, so that periodic data cannot coincide with the sample.
struct Sample {
  static constexpr std::size_t kStride = 16;
  static MQ_HD MQ_INLINE std::size_t position(std::size_t i) {
    return i * kStride + ((static_cast<std::uint32_t>(i) * 0x9e3779b9u) >> 28);
  }
  // The share of the sample that corresponds to k elements of the block.
  static MQ_HD MQ_INLINE std::size_t share(std::size_t k) {
    const std::size_t s = (k + kStride / 2) / kStride;
    return s > 1 ? s : 1;
  }
};

// The samples of search=dryden2016, evenly spread over a block of n. kExcess: how many times the requested
// number is sent at most.
struct DrydenSample {
  static constexpr std::uint32_t kCount = 128, kExcess = 4;
  static MQ_HD MQ_INLINE std::size_t position(std::uint32_t i, std::size_t n) {
    const std::uint64_t random = (i + 1) * 0x9e3779b9u;  // evenly spread over 32 bits
    return static_cast<std::size_t>((random * n) >> 32);
  }
};

// The histogram of select=approx has eight bins per octave. The elements of a bin are assumed to be evenly
// spread.
template <class T>
inline constexpr Key<T> kBinKeys = Key<T>{1} << (kMantissaBits<T> - 3);
// Estimates the bound within a bin. The bin begins at key `low` and has `in_bin` elements, of which all
// except `excess` are sent.
template <class T>
MQ_HD MQ_INLINE Key<T> bound_in_bin(Key<T> low, std::size_t in_bin, std::size_t excess) {
  return low + kBinKeys<T> / static_cast<Key<T>>(in_bin) * static_cast<Key<T>>(excess) - 1;
}

// The result of a bisection of the keys from 1 to infinity, computed from the k-th greatest key, which is not
// 0, and the next key, which is less or equal. The bisection looks for a key that exactly k elements reach.
// If there is none, it returns the greatest key that more than k elements reach.
template <class T>
MQ_HD MQ_INLINE Key<T> bisected(Key<T> kth, Key<T> next) {
  Key<T> low = 1, high = kMaxKey<T> + 1;
  while (low <= next && high - low > 1) {
    const Key<T> middle = low + (high - low) / 2;
    (middle <= kth ? low : high) = middle;
  }
  return low;
}
