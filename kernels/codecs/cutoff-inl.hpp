// How many elements a sparse codec sends of a block, and what decides which: shared by host and device rows.
// Included once per instruction set, and once for the device, after keys-inl.hpp.

enum Side { kBelow, kAbove, kBoth };

// A finite element is sent if its magnitude exceeds `bound`, or equals it and fewer than `ties` such elements
// of its sign came before it.
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
  // Of n magnitudes, the place of the one that tau becomes.
  static MQ_INLINE std::size_t rank(const Params& p, std::size_t n) {
    return std::max<std::size_t>(1, static_cast<std::size_t>((1 - p.value[1]) * static_cast<double>(n)));
  }
  // What an entry stands for.
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

  // ceil(k n). A share such as 0.07 is no binary number, and the product may exceed the 7 that 7 % of 100
  // are.
  MQ_INLINE std::size_t share(std::size_t n) const {
    constexpr double kRounding = 1 - 0x1p-50;
    return std::min(n, static_cast<std::size_t>(std::ceil(k * static_cast<double>(n) * kRounding)));
  }
  // Finite elements that are sent of n, at most.
  MQ_INLINE std::size_t most(std::size_t n) const {
    const std::size_t m = share(n);
    return select == TopKSelect::exact ? m : std::min(n, 2 * m);
  }
};

// round(n / pi), but one if there are any.
MQ_HD MQ_INLINE std::size_t adaptive_share(std::size_t n, double pi) {
  const auto k = static_cast<std::size_t>(static_cast<double>(n) / pi + 0.5);
  return n == 0 ? 0 : k > 1 ? k : 1;
}

// An inexact bound will do if it sends from half as many as asked for to twice as many.
MQ_HD MQ_INLINE bool near_enough(std::size_t count, std::size_t k) {
  return 2 * count >= k && count <= 2 * k;
}

// The sample of a block: element position(i) for each i below n / kStride, a position of its own in each
// stride, lest a period of the data meet that of the sample.
struct Sample {
  static constexpr std::size_t kStride = 16;
  static MQ_HD MQ_INLINE std::size_t position(std::size_t i) {
    return i * kStride + ((static_cast<std::uint32_t>(i) * 0x9e3779b9u) >> 28);
  }
  // Of k elements in the block.
  static MQ_HD MQ_INLINE std::size_t share(std::size_t k) {
    const std::size_t s = (k + kStride / 2) / kStride;
    return s > 1 ? s : 1;
  }
};

// The samples of search=dryden2016, evenly spread over a block of n; and how many times what was asked for it
// sends at most.
struct DrydenSample {
  static constexpr std::uint32_t kCount = 128, kExcess = 4;
  static MQ_HD MQ_INLINE std::size_t position(std::uint32_t i, std::size_t n) {
    const std::uint64_t random = (i + 1) * 0x9e3779b9u;  // evenly spread over 32 bits
    return static_cast<std::size_t>((random * n) >> 32);
  }
};

// The histogram of select=approx: eight bins an octave, the elements of one taken as evenly spread.
template <class T>
inline constexpr Key<T> kBinKeys = Key<T>{1} << (kMantissaBits<T> - 3);
// The bound in the bin that begins at key `low` and has `in_bin` elements, of which all but `excess` are
// sent.
template <class T>
MQ_HD MQ_INLINE Key<T> bound_in_bin(Key<T> low, std::size_t in_bin, std::size_t excess) {
  return low + kBinKeys<T> / static_cast<Key<T>>(in_bin) * static_cast<Key<T>>(excess) - 1;
}

// Where a bisection of the keys from 1 to infinity ends that looks for one that exactly k elements are at
// least, or else the greatest that more than k are: its result by the k-th greatest key, not 0, and the one
// after it, which is less or equal.
template <class T>
MQ_HD MQ_INLINE Key<T> bisected(Key<T> kth, Key<T> next) {
  Key<T> low = 1, high = kMaxKey<T> + 1;
  while (low <= next && high - low > 1) {
    const Key<T> middle = low + (high - low) / 2;
    (middle <= kth ? low : high) = middle;
  }
  return low;
}
