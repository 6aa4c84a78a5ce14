// Blocks of a ternary codec with two bits per element, in groups of 32 lanes. Used for blocks that send more
// than about a quarter of their elements, and for blocks with a NaN or Inf. Included once per instruction
// set, after wire-inl.hpp.
#pragma once
#include "kernels/sparse/select-inl.hpp"

struct SideSums {
  static constexpr int kParts = kSideParts;
  double part[2][kParts], scale;
  std::size_t count[2];
  explicit MQ_INLINE SideSums(double s) : part{}, scale(s), count{} {}
  MQ_INLINE double total(Side side) const { return side_total(part[side]); }
  MQ_INLINE bool finite() const { return std::isfinite(total(kBelow)) && std::isfinite(total(kAbove)); }
  template <class T>
  MQ_INLINE T mean(Side side) const {
    return side_mean<T>(total(side), count[side], scale);
  }
};

// The codes of a group: one bit per element above 0, and one bit per element below 0. Both bits are set if an
// element is not finite.
struct TernaryBits {
  std::uint32_t above, below;
};
struct TernaryCounts {
  std::size_t entries = 0, marks = 0;
  MQ_INLINE TernaryCounts() {}
  MQ_INLINE void add(TernaryBits bits) {
    entries += static_cast<std::size_t>(std::popcount(bits.above ^ bits.below));
    marks += static_cast<std::size_t>(std::popcount(bits.above & bits.below));
  }
};

template <class T>
struct TernaryDense {
  using L = Lanes<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  static constexpr std::size_t kCodeBytes = dense_bytes(kLanes);

  // Writes the codes of a group.
  template <class W>
  static MQ_INLINE void store(std::byte* codes, std::size_t g, TernaryBits bits, W width) {
    const std::uint64_t word = bits.above | std::uint64_t{bits.below} << width.count;
    std::memcpy(codes + g * kCodeBytes, &word, dense_bytes(width.count));
  }

  // Writes the codes of the selected elements. Non-finite elements get both bits.
  static TernaryCounts put(const std::byte* v, std::size_t n, Selection<T> selection, std::byte* codes) {
    TernaryCounts counts;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) counts.add(put_group(v, g, selection, codes, Whole{}));
    if (rest) counts.add(put_group(v, whole, selection, codes, Part{rest}));
    return counts;
  }

  static SideSums sum(const std::byte* v, std::size_t n, const std::byte* codes, double scale) {
    SideSums sums(scale);
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) sum_group(v, g, codes, sums, Whole{});
    if (rest) sum_group(v, whole, codes, sums, Part{rest});
    return sums;
  }

  // Computes the residual after v was coded. With carry, the residual holds v before. Non-finite elements get
  // 0.
  template <Feedback F>
  static void correct(const std::byte* v, std::size_t n, std::byte* residual, const std::byte* codes,
                      const T (&value)[2]) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) correct_group<F>(v, g, residual, codes, value, Whole{});
    if (rest) correct_group<F>(v, whole, residual, codes, value, Part{rest});
  }

  // Whether encode can have written these codes for `count` entries, with or without marks.
  static bool valid(const std::byte* codes, std::size_t n, std::size_t count, bool marked) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    TernaryCounts counts;
    for (std::size_t g = 0; g < whole; ++g) counts.add(load(codes, g, Whole{}));
    if (rest) counts.add(load(codes, whole, Part{rest}));
    const std::size_t used = 2 * n % 8;  // bits after the last element are 0
    const bool padded = used == 0 || std::to_integer<unsigned>(codes[dense_bytes(n) - 1]) >> used == 0;
    return padded && counts.entries == count && (counts.marks > 0) == marked;
  }

  // With base, elements that are no entry become base, not base + 0, as in the sparse formats.
  template <bool kAdd>
  static void decode(const std::byte* codes, std::size_t n, const T (&value)[2], T mark,
                     const std::byte* base, std::byte* x) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) decode_group<kAdd>(codes, g, value, mark, base, x, Whole{});
    if (rest) decode_group<kAdd>(codes, whole, value, mark, base, x, Part{rest});
  }

 private:
  using Bits = TernaryBits;
  template <class W>
  static MQ_INLINE Bits load(const std::byte* codes, std::size_t g, W width) {
    std::uint64_t word = 0;
    std::memcpy(&word, codes + g * kCodeBytes, dense_bytes(width.count));
    return {static_cast<std::uint32_t>(word) & width.bits,
            static_cast<std::uint32_t>(word >> width.count) & width.bits};
  }
  static MQ_INLINE L lanes(Bits bits, const T (&value)[2], T mark) {
    const L low = L::select(L::mask_of(bits.below), L::all(value[kBelow]), L::all(T{0}));
    const L both = L::select(L::mask_of(bits.above), L::all(value[kAbove]), low);
    return L::select(L::mask_of(bits.above & bits.below), L::all(mark), both);
  }

  template <class W>
  static MQ_INLINE Bits put_group(const std::byte* v, std::size_t g, Selection<T>& selection,
                                  std::byte* codes, W width) {
    const GroupBits taken = take_group(L::load(v + g * kGroupBytes, width), selection, width);
    const Bits bits{taken.above | taken.nonfinite, taken.below | taken.nonfinite};
    store(codes, g, bits, width);
    return bits;
  }

  template <class W>
  static MQ_INLINE void sum_group(const std::byte* v, std::size_t g, const std::byte* codes, SideSums& sums,
                                  W width) {
    const L lanes = L::load(v + g * kGroupBytes, width);
    const Bits bits = load(codes, g, width);
    const std::uint32_t marks = bits.above & bits.below;
    add_side(lanes, bits.above & ~marks, sums.part[kAbove], sums.scale);
    add_side(lanes, bits.below & ~marks, sums.part[kBelow], sums.scale);
    sums.count[kAbove] += static_cast<std::size_t>(std::popcount(bits.above & ~marks));
    sums.count[kBelow] += static_cast<std::size_t>(std::popcount(bits.below & ~marks));
  }
  static MQ_INLINE void add_side(const L& lanes, std::uint32_t bits, double (&part)[SideSums::kParts],
                                 double scale) {
    T term[kLanes];
    L::select(L::mask_of(bits), lanes, L::all(T{0})).store(reinterpret_cast<std::byte*>(term), Whole{});
    for (int i = 0; i < kLanes; ++i) part[i % SideSums::kParts] += static_cast<double>(term[i]) * scale;
  }

  template <Feedback F, class W>
  static MQ_INLINE void correct_group(const std::byte* v, std::size_t g, std::byte* residual,
                                      const std::byte* codes, const T (&value)[2], W width) {
    const L coded = L::load(v + g * kGroupBytes, width);
    L error = coded - lanes(load(codes, g, width), value, T{0});
    error = L::select(coded.finite(), error, L::all(T{0}));
    if constexpr (F == Feedback::deposit)
      error = deposited(L::load(residual + g * kGroupBytes, width), error);
    error.store(residual + g * kGroupBytes, width);
  }

  template <bool kAdd, class W>
  static MQ_INLINE void decode_group(const std::byte* codes, std::size_t g, const T (&value)[2], T mark,
                                     const std::byte* base, std::byte* x, W width) {
    const Bits bits = load(codes, g, width);
    L decoded = lanes(bits, value, mark);
    if constexpr (kAdd) {
      const L old = L::load(base + g * kGroupBytes, width);
      L sum = old + decoded;
      sum = L::select(sum.ordered(), sum, L::all(std::numeric_limits<T>::quiet_NaN()));
      decoded = L::select(L::mask_of(bits.above | bits.below), sum, old);
    }
    decoded.store(x + g * kGroupBytes, width);
  }
};
