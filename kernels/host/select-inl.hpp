// Which elements of a block a ternary codec sends: those whose magnitude exceeds a bound. Finds the bound for
// a given count and lists the elements above it. Separate from the codecs and from the wire: this file knows
// positions and magnitudes only. Included once per instruction set, after loops-inl.hpp.
//
// Magnitudes are compared as integers: the bits of a float without its sign, its *key*, ascend with the
// magnitude. The k-th largest key is found by histograms (the reference of most sparse codecs is
// nth_element, which visits in unpredictable order and branches on every comparison): 2048 bins over the
// range of keys, then 2048 over the bin that holds the k-th, until a bin is used up exactly or is one key
// wide. Counts are integers, so that the result depends on nothing but the values.
//
// One pass over the block computes v = x + residual and lists the *candidates*, the elements above a floor;
// where the floor is a good guess (a little below the bound of the block before, else of a sample) the search
// looks at about 1.3 k candidates and not at the block. A bad guess costs another pass, never the result.

template <class T>
using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
inline constexpr Key<T> kSignBit = Key<T>{1} << (8 * sizeof(T) - 1);
template <class T>
inline constexpr Key<T> kMaxKey = std::bit_cast<Key<T>>(std::numeric_limits<T>::max());
template <class T>
MQ_INLINE Key<T> key_of(T magnitude) {
  return std::bit_cast<Key<T>>(magnitude);
}
template <class T>
MQ_INLINE T magnitude_of(Key<T> key) {
  return std::bit_cast<T>(key);
}

template <class T>
MQ_INLINE T element(const std::byte* v, std::size_t i) {
  T value;
  std::memcpy(&value, v + i * sizeof(T), sizeof value);
  return value;
}
template <class T>
MQ_INLINE void set_element(std::byte* v, std::size_t i, T value) {
  std::memcpy(v + i * sizeof(T), &value, sizeof value);
}

// A finite element is sent if its magnitude exceeds `bound`, or equals it and fewer than `ties` such elements
// of its sign came before it.
template <class T>
struct Cutoff {
  T bound;
  std::size_t ties;
};

enum Side { kBelow, kAbove, kBoth };

// What a block sends: a cutoff for each sign, and no more than `limit` elements, the first ones.
template <class T>
struct Selection {
  Cutoff<T> side[2];
  std::size_t limit;
  // The greatest floor above which all of them are.
  MQ_INLINE Key<T> floor() const {
    return std::min<Key<T>>(key_of(side[kBelow].bound) - (side[kBelow].ties > 0),
                            key_of(side[kAbove].bound) - (side[kAbove].ties > 0));
  }
};

// The key of the bits of an element, if it is of that side; else a number above all keys.
template <class T>
struct KeyOf {
  Key<T> flip, mask;
  explicit MQ_INLINE KeyOf(Side side)
      : flip(side == kBelow ? kSignBit<T> : 0),
        mask(static_cast<Key<T>>(side == kBoth ? ~kSignBit<T> : ~Key<T>{0})) {}
  MQ_INLINE Key<T> operator()(T v) const { return (key_of(v) ^ flip) & mask; }
};

// Finds the cutoff that the k largest of the keys above `floor` pass, k >= 1. keys(i), i < m, may be in any
// order; those above kMaxKey do not count. False if there are fewer than k. Bins of the first histogram are
// 2^shift keys wide; the last one holds everything beyond.
template <class T, class Count = std::uint32_t, class Keys>
bool find_cutoff(const Keys& keys, std::size_t m, std::size_t k, Key<T> floor, int shift, Cutoff<T>& cutoff) {
  constexpr int kBinBits = 11;
  constexpr std::size_t kBins = std::size_t{1} << kBinBits;
  Key<T> low = floor + 1, range = kMaxKey<T> - low;
  for (;;) {
    Count count[kBins];
    std::memset(count, 0, sizeof count);
    std::size_t inside = 0;
    for (std::size_t i = 0; i < m; ++i) {
      const Key<T> above = keys(i) - low;  // wraps around for smaller keys
      const bool in = above <= range;
      count[std::min<Key<T>>(above >> shift, kBins - 1)] += in;
      inside += in;
    }
    if (inside < k) return false;
    std::size_t smaller = inside - k, bin = 0;  // of those in range, these many are not taken
    while (smaller >= count[bin]) smaller -= count[bin++];
    low += static_cast<Key<T>>(bin) << shift;
    if (smaller == 0) {
      cutoff = {magnitude_of<T>(low - 1), 0};
      return true;
    }
    k = count[bin] - smaller;
    if (shift == 0 && bin < kBins - 1) {
      cutoff = {magnitude_of<T>(low), k};
      return true;
    }
    range = bin < kBins - 1 ? (Key<T>{1} << shift) - 1 : range - (static_cast<Key<T>>(bin) << shift);
    shift = std::max(0, static_cast<int>(std::bit_width(range)) - kBinBits);
  }
}

// Appends base + i for each bit i that is set, ascending, to a list with room for 32 more.
MQ_INLINE void append_positions(std::uint32_t* list, std::uint32_t bits, std::uint32_t base) {
  // Most groups of a sparse block have few: four without a branch that depends on the data.
  for (int i = 0; i < 4; ++i) {
    *list++ = base + static_cast<std::uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  for (; bits != 0; bits &= bits - 1) *list++ = base + static_cast<std::uint32_t>(std::countr_zero(bits));
}

// The elements of a block above a floor, and every element that is NaN or Inf.
template <class T>
struct Candidates {
  using L = Lanes<T>;
  static constexpr std::size_t kMaxBlock = 65536;
  const std::byte* v = nullptr;
  std::size_t n = 0;
  Key<T> floor = 0;
  std::size_t found = 0;                     // how many there are
  std::uint32_t at[kMaxBlock / 4 + kLanes];  // where, ascending, if listed()

  MQ_INLINE Candidates() {}
  static constexpr std::size_t room(std::size_t n) { return (n + 3) / 4; }
  MQ_INLINE bool listed() const { return found <= room(n); }

  // v = x, or with carry x + residual, which replaces the residual.
  template <Feedback F>
  void collect(const std::byte* x, std::byte* residual, std::size_t length, Key<T> above) {
    v = F == Feedback::carry ? residual : x;
    n = length;
    floor = above;
    found = 0;
    const L bound = L::all(magnitude_of<T>(floor));
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) collect_group<F>(x, residual, g, bound, Whole{});
    if (rest) collect_group<F>(x, residual, whole, bound, Part{rest});
  }
  void collect_again(Key<T> above) { collect<Feedback::none>(v, nullptr, n, above); }

  // Lists a superset of the elements that pass a selection, or finds that there is no room to list them.
  void cover(const Selection<T>& selection) {
    const Key<T> needed = selection.floor();
    if (floor != needed && (floor > needed || !listed())) collect_again(needed);
  }

 private:
  template <Feedback F, class W>
  MQ_INLINE void collect_group(const std::byte* x, std::byte* residual, std::size_t g, const L& bound,
                               W width) {
    constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
    L lanes = L::load(x + g * kGroupBytes, width);
    if constexpr (F == Feedback::carry) {
      lanes = lanes + L::load(residual + g * kGroupBytes, width);
      lanes.store(residual + g * kGroupBytes, width);
    }
    const std::uint32_t bits = ~bound.at_least(lanes.abs()).bits() & width.bits;  // NaN is not below it
    append_positions(at + std::min(found, room(n)), bits, static_cast<std::uint32_t>(g * kLanes));
    found += static_cast<std::size_t>(std::popcount(bits));
  }
};

// The keys of all elements of a block, of its candidates, and of one element in kStride.
template <class T>
struct AllKeys {
  const std::byte* v;
  KeyOf<T> key;
  MQ_INLINE Key<T> operator()(std::size_t i) const { return key(element<T>(v, i)); }
};
template <class T>
struct ListedKeys {
  const std::byte* v;
  KeyOf<T> key;
  const std::uint32_t* at;
  MQ_INLINE Key<T> operator()(std::size_t i) const { return key(element<T>(v, at[i])); }
};
template <class T>
struct SampleKeys {
  static constexpr std::size_t kStride = 16;
  const std::byte* v;
  KeyOf<T> key;
  // A position of its own in each stride, lest a period of the data meet that of the sample.
  MQ_INLINE Key<T> operator()(std::size_t i) const {
    const std::uint32_t jitter = (static_cast<std::uint32_t>(i) * 0x9e3779b9u) >> 28;
    return key(element<T>(v, i * kStride + jitter));
  }
};
// Bins of a first histogram: 2048 over all keys; and 1024 an octave where the k-th key is known to be little
// above the floor.
template <class T>
inline constexpr int kCoarse = 8 * sizeof(T) - 1 - 11;
template <class T>
inline constexpr int kFine = std::numeric_limits<T>::digits - 1 - 10;

// The cutoff that a sample suggests for the k largest elements of a side. False if the sample has too few.
template <class T>
bool sampled_cutoff(const Candidates<T>& block, Side side, std::size_t k, Cutoff<T>& cutoff) {
  constexpr std::size_t kStride = SampleKeys<T>::kStride;
  const SampleKeys<T> sample{block.v, KeyOf<T>(side)};
  return find_cutoff<T>(sample, block.n / kStride, std::max<std::size_t>(1, (k + kStride / 2) / kStride), 0,
                        kCoarse<T>, cutoff);
}

// The cutoff that the k largest elements of a side pass, exactly, ties by lowest position.
template <class T>
Cutoff<T> exact_cutoff(Candidates<T>& block, Side side, std::size_t k) {
  constexpr std::size_t kWorthASample = 2048;
  const KeyOf<T> key(side);
  Cutoff<T> cutoff{std::numeric_limits<T>::max(), 0};
  if (k == 0) return cutoff;
  if (k >= block.n) return {T{0}, 0};
  for (int guess = 0; guess < 2; ++guess) {
    if (block.listed()) {
      const ListedKeys<T> listed{block.v, key, block.at};
      if (find_cutoff<T>(listed, block.found, k, block.floor, kFine<T>, cutoff)) return cutoff;
      if (block.floor == 0) return {T{0}, 0};  // there are fewer than k that are not 0
    }
    if (guess == 1 || block.n < kWorthASample || k > block.n / 4) break;
    // Of the sample a few more than its share, so that too few candidates are unlikely.
    if (!sampled_cutoff(block, side, 2 * k, cutoff)) cutoff = {T{0}, 0};
    block.collect_again(key_of(cutoff.bound) - (cutoff.ties > 0));
  }
  const AllKeys<T> all{block.v, key};
  if (!find_cutoff<T>(all, block.n, k, 0, kCoarse<T>, cutoff)) return {T{0}, 0};
  return cutoff;
}

// The first elements that pass a cutoff for both signs together: its ties, in order of position, by sign.
template <class T>
Selection<T> joint_selection(Candidates<T>& block, const Cutoff<T>& cutoff) {
  Selection<T> selection{{cutoff, cutoff}, block.n};
  if (cutoff.ties == 0) return selection;
  block.cover(selection);
  std::size_t ties[2] = {0, 0};
  const std::size_t m = block.listed() ? block.found : block.n;
  for (std::size_t i = 0; i < m && ties[kBelow] + ties[kAbove] < cutoff.ties; ++i) {
    const T v = element<T>(block.v, block.listed() ? block.at[i] : i);
    if (std::abs(v) == cutoff.bound) ++ties[v > 0];
  }
  selection.side[kBelow].ties = ties[kBelow];
  selection.side[kAbove].ties = ties[kAbove];
  return selection;
}
