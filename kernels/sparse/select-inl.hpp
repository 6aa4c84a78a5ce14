// Which elements of a block a sparse codec (ternary, topk) sends: those whose magnitude exceeds a bound. This
// file finds the bound for a given count and lists the elements above it. It knows positions and magnitudes
// only, neither codecs nor the wire. Included once per instruction set, after loops-inl.hpp and
// sparse/cutoff-inl.hpp.
//
// The k-th largest magnitude is found by bisection of the keys (sparse/keys-inl.hpp). Counting the elements
// above a key takes a compare and a population count per register, without a branch or a store. It takes
// about 20 counts, or 31 if there are ties (63 for doubles). The result depends only on the values. A search
// among 700 candidates takes 1 us. A histogram took 4 us, because it reads and writes memory for every
// element; nth_element mispredicts half of its comparisons.
//
// One pass over the block computes v = x + residual and lists the *candidates*: the elements above a floor.
// The floor is a guess: a little below the bound of the previous block, or the bound of a sample. After a
// good guess, the search reads about 1.3 k candidates instead of the whole block. A bad guess costs another
// pass but never changes the result.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/sparse/cutoff-inl.hpp"

// What a block sends: the elements that pass the cutoff of their sign, but only the first `limit` elements.
template <class T>
struct Selection {
  Cutoff<T> side[2];
  std::size_t limit;
  // The greatest floor that all selected elements exceed.
  MQ_INLINE Key<T> floor() const {
    return std::min<Key<T>>(key_of(side[kBelow].bound) - (side[kBelow].ties > 0),
                            key_of(side[kAbove].bound) - (side[kAbove].ties > 0));
  }
};

// Counts the values that are at least t > 0: of one side, or with kBoth by magnitude. NaN does not count.
template <class T, Side kSide, class W>
MQ_INLINE std::size_t count_group(const std::byte* v, const Lanes<T>& t, const Lanes<T>& minus_t, W width) {
  const Lanes<T> lanes = Lanes<T>::load(v, width);
  const auto mask = kSide == kBoth    ? lanes.abs().at_least(t)
                    : kSide == kAbove ? lanes.at_least(t)
                                      : minus_t.at_least(lanes);
  return static_cast<std::size_t>(std::popcount(mask.bits()));
}
template <class T, Side kSide>
std::size_t count_at_least(const std::byte* v, std::size_t n, T t) {
  const Lanes<T> least = Lanes<T>::all(t), minus = Lanes<T>::all(-t);
  const std::size_t whole = n / kLanes, rest = n % kLanes;
  std::size_t count = 0;
  for (std::size_t g = 0; g < whole; ++g)
    count += count_group<T, kSide>(v + g * kLanes * sizeof(T), least, minus, Whole{});
  if (rest) count += count_group<T, kSide>(v + whole * kLanes * sizeof(T), least, minus, Part{rest});
  return count;
}
template <class T>
MQ_INLINE std::size_t count_at_least(const std::byte* v, std::size_t n, Side side, Key<T> key) {
  const T t = magnitude_of<T>(key);
  return side == kBoth    ? count_at_least<T, kBoth>(v, n, t)
         : side == kAbove ? count_at_least<T, kAbove>(v, n, t)
                          : count_at_least<T, kBelow>(v, n, t);
}

// Finds the cutoff that exactly the k largest finite elements of a side pass, k >= 1. False if fewer than k
// exceed the floor. Method: bisection of the keys above the floor, by counting. It starts with steps of
// `step`, which should be small if the bound is expected to be near the floor.
template <class T>
bool find_cutoff(const std::byte* v, std::size_t n, Side side, std::size_t k, Key<T> floor, Key<T> step,
                 Cutoff<T>& cutoff) {
  constexpr Key<T> kEnd = kMaxKey<T> + 1;  // the key of infinity
  const std::size_t infinite = count_at_least<T>(v, n, side, kEnd);
  k += infinite;
  Key<T> low = floor + 1, high = kEnd;  // at least k keys are >= low, and fewer than k are >= high
  std::size_t n_low = count_at_least<T>(v, n, side, low), n_high = infinite;
  if (n_low < k) return false;
  while (n_low > k && high - low > 1) {
    const Key<T> middle = low + std::min<Key<T>>(step, (high - low) / 2);
    const std::size_t count = count_at_least<T>(v, n, side, middle);
    if (count >= k) {
      low = middle;
      n_low = count;
      step = std::min<Key<T>>(2 * step, kEnd);
    } else {
      high = middle;
      n_high = count;
    }
  }
  if (n_low == k)
    cutoff = {magnitude_of<T>(low - 1), 0};
  else
    cutoff = {magnitude_of<T>(low), k - n_high};
  return true;
}

// Estimates the same cutoff from a histogram of eight bins per octave; the elements of a bin are assumed to
// be evenly spread. Also returns false if the bound is below the lowest whole bin above the floor. On smooth
// distributions, up to 5 % fewer than k elements pass. Here the histogram is only its bin edges, and a
// bisection counts only at the edges that it visits: about half of the counts of find_cutoff. (A device reads
// no element twice, so it counts all bins at once.)
template <class T>
bool find_in_histogram(const std::byte* v, std::size_t n, Side side, std::size_t k, Key<T> floor, Key<T>,
                       Cutoff<T>& cutoff) {
  constexpr Key<T> kBin = kBinKeys<T>, kEnd = kMaxKey<T> + 1;
  const std::size_t infinite = count_at_least<T>(v, n, side, kEnd);
  k += infinite;
  Key<T> low = (floor / kBin + 1) * kBin, high = kEnd;
  if (low >= high) return false;
  std::size_t n_low = count_at_least<T>(v, n, side, low), n_high = infinite;
  if (n_low < k) return false;
  while (high - low > kBin) {
    const Key<T> middle = low + (high - low) / kBin / 2 * kBin;
    const std::size_t count = count_at_least<T>(v, n, side, middle);
    (count >= k ? low : high) = middle;
    (count >= k ? n_low : n_high) = count;
  }
  cutoff = {magnitude_of<T>(bound_in_bin<T>(low, n_low - n_high, n_low - k)), 0};
  return true;
}

// The elements of a block above a floor, and all NaN and Inf elements.
template <class T>
struct Candidates {
  using L = Lanes<T>;
  const std::byte* v = nullptr;
  std::size_t n = 0;
  Key<T> floor = 0;
  std::size_t found = 0;  // number of candidates
  // If listed(): the positions, ascending, and the values. If kCompresses, the pass itself lists the values;
  // otherwise list_values() does. All of it takes at most 192 KiB of stack.
  std::uint32_t at[kMaxSparseBlock / 4 + kLanes];
  T value[kMaxSparseBlock / 4 + kLanes];

  MQ_INLINE Candidates() {}
  MQ_INLINE const std::byte* values() const { return reinterpret_cast<const std::byte*>(value); }
  static constexpr std::size_t room(std::size_t n) { return (n + 3) / 4; }
  MQ_INLINE bool listed() const { return found <= room(n); }

  // v = x. With carry, v = x + residual, which replaces the residual.
  template <Feedback F>
  void collect(const std::byte* x, std::byte* residual, std::size_t length, Key<T> above) {
    v = F == Feedback::carry ? residual : x;
    n = length;
    floor = above;
    const L bound = L::all(magnitude_of<T>(floor));
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    std::size_t count = 0;
    for (std::size_t g = 0; g < whole; ++g) count = collect_group<F>(x, residual, g, bound, count, Whole{});
    if (rest) count = collect_group<F>(x, residual, whole, bound, count, Part{rest});
    found = count;
  }
  void list_values() {
    if constexpr (!kCompresses<T>)
      for (std::size_t i = 0; i < found; ++i) value[i] = element<T>(v, at[i]);
  }
  // The value of candidate i, which is at this position.
  MQ_INLINE T value_of(std::size_t i, std::size_t position) const {
    return kCompresses<T> ? value[i] : element<T>(v, position);
  }
  void collect_again(Key<T> above) { collect<Feedback::none>(v, nullptr, n, above); }

  // Lists a superset of the elements that pass a selection, or finds that there is no room to list them.
  void cover(const Selection<T>& selection) {
    const Key<T> needed = selection.floor();
    if (floor != needed && (floor > needed || !listed())) collect_again(needed);
  }

 private:
  template <Feedback F, class W>
  MQ_INLINE std::size_t collect_group(const std::byte* x, std::byte* residual, std::size_t g, const L& bound,
                                      std::size_t count, W width) {
    constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
    ask_ahead<T>(x, g);
    L lanes = L::load(x + g * kGroupBytes, width);
    if constexpr (F == Feedback::carry) {
      ask_ahead<T>(residual, g);
      lanes = lanes + L::load(residual + g * kGroupBytes, width);
      lanes.store(residual + g * kGroupBytes, width);
    }
    const std::uint32_t bits = ~bound.at_least(lanes.abs()).bits() & width.bits;  // NaN too
    const std::size_t end = std::min(count, room(n));
    append_positions(at + end, bits, static_cast<std::uint32_t>(g * kLanes));
    if constexpr (kCompresses<T>) append_lanes(value + end, bits, lanes);
    return count + static_cast<std::size_t>(std::popcount(bits));
  }
};

// The cutoff that a sample of one element in 16 suggests for the k largest elements of a side. False if the
// sample has too few elements.
template <class T>
bool sampled_cutoff(const Candidates<T>& block, Side side, std::size_t k, Cutoff<T>& cutoff) {
  T sample[kMaxSparseBlock / Sample::kStride];
  const std::size_t m = block.n / Sample::kStride;
  for (std::size_t i = 0; i < m; ++i) sample[i] = element<T>(block.v, Sample::position(i));
  return find_cutoff<T>(reinterpret_cast<const std::byte*>(sample), m, side, Sample::share(k), 0, kMaxKey<T>,
                        cutoff);
}

// Applies find_cutoff or find_in_histogram to as few elements as possible: first to the candidates, then to
// the candidates above a sampled floor, then to the block. k < block.n. False if fewer than k elements are
// not 0.
template <class T>
using Find = bool (*)(const std::byte*, std::size_t, Side, std::size_t, Key<T>, Key<T>, Cutoff<T>&);
template <class T>
bool find_near(Candidates<T>& block, Side side, std::size_t k, Find<T> find, Cutoff<T>& cutoff) {
  constexpr std::size_t kWorthASample = 2048;
  constexpr Key<T> kStep = Key<T>{1} << (std::numeric_limits<T>::digits - 1 - 5);  // 1/32 octave
  for (int guess = 0; guess < 2; ++guess) {
    if (block.listed()) {
      block.list_values();
      if (find(block.values(), block.found, side, k, block.floor, kStep, cutoff)) return true;
      if (block.floor == 0) return false;
    }
    if (guess == 1 || block.n < kWorthASample || k > block.n / 4) break;
    // Twice the share of the sample, so that too few candidates are unlikely.
    Cutoff<T> sampled;
    if (!sampled_cutoff(block, side, 2 * k, sampled)) sampled = {T{0}, 0};
    block.collect_again(key_of(sampled.bound) - (sampled.ties > 0));
  }
  return find(block.v, block.n, side, k, block.floor, kStep, cutoff) ||
         find(block.v, block.n, side, k, 0, kMaxKey<T>, cutoff);
}

// The cutoff that exactly the k largest elements of a side pass. Ties: the lowest position first.
template <class T>
Cutoff<T> exact_cutoff(Candidates<T>& block, Side side, std::size_t k) {
  Cutoff<T> cutoff{std::numeric_limits<T>::max(), 0};
  if (k == 0) return cutoff;
  if (k < block.n && find_near(block, side, k, &find_cutoff<T>, cutoff)) return cutoff;
  return {T{0}, 0};
}

// The floor for the next block: a little below the bound of this block. Near the bound, the density of
// magnitudes falls by about a fifth per 1/16 octave.
template <class T>
MQ_INLINE Key<T> floor_below(const Selection<T>& last) {
  constexpr Key<T> kMargin = Key<T>{1} << (std::numeric_limits<T>::digits - 1 - 4);
  const Key<T> floor = last.floor();
  return floor > kMargin ? floor - kMargin : 0;
}

// Number of finite elements that pass a selection without ties or limit.
template <class T>
std::size_t count_selected(Candidates<T>& block, const Selection<T>& selection) {
  block.cover(selection);
  const bool listed = block.listed();
  std::size_t count = 0;
  for (std::size_t i = 0, m = listed ? block.found : block.n; i < m; ++i) {
    const T v = element<T>(block.v, listed ? block.at[i] : i), magnitude = std::abs(v);
    count += magnitude > selection.side[v > 0].bound && magnitude <= std::numeric_limits<T>::max();
  }
  return count;
}

// The first elements that pass a common cutoff for both signs. The ties of the cutoff are taken in the order
// of positions and assigned to their signs.
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

// The `keep` lowest of the bits that are set.
MQ_INLINE std::uint32_t lowest(std::uint32_t bits, std::size_t keep) {
  for (std::size_t n = static_cast<std::size_t>(std::popcount(bits)); n > keep; --n)
    bits ^= std::bit_floor(bits);
  return bits;
}
// The elements of one side whose magnitudes pass its cutoff.
template <class T>
MQ_INLINE std::uint32_t passing(const Lanes<T>& magnitude, std::uint32_t side, Cutoff<T>& cutoff) {
  const Lanes<T> bound = Lanes<T>::all(cutoff.bound);
  const std::uint32_t not_above = bound.at_least(magnitude).bits();
  const std::uint32_t ties = lowest(magnitude.at_least(bound).bits() & not_above & side, cutoff.ties);
  cutoff.ties -= static_cast<std::size_t>(std::popcount(ties));
  return (~not_above & side) | ties;
}

// The elements of a group that a selection takes, by sign, and the non-finite elements, which it does not
// count.
struct GroupBits {
  std::uint32_t above, below, nonfinite;
};
// The selected elements of the next group of a block. Reduces the remaining ties and limit of the selection.
template <class T, class W>
MQ_INLINE GroupBits take_group(const Lanes<T>& v, Selection<T>& selection, W width) {
  const Lanes<T> magnitude = v.abs();
  const std::uint32_t finite = v.finite().bits() & width.bits;
  const std::uint32_t positive = v.at_least(Lanes<T>::all(T{0})).bits() & finite;
  const std::uint32_t above = passing(magnitude, positive, selection.side[kAbove]);
  const std::uint32_t below = passing(magnitude, finite & ~positive, selection.side[kBelow]);
  const std::uint32_t kept = lowest(above | below, selection.limit);
  selection.limit -= static_cast<std::size_t>(std::popcount(kept));
  return {above & kept, below & kept, ~finite & width.bits};
}
