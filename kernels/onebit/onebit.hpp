// onebit: one sign bit per element and the two side means of its block; error feedback is added outside the
// codec (Seide, Fu, Droppo, Li, Yu: 1-bit stochastic gradient descent, Interspeech 2014, section 3; in the
// paper a block is a column). The side means minimise the squared error for the given bits:
//   |v - decoded|^2 = |v|^2 - n+ above^2 - n- below^2
//
// Encode works block by block. Pass 1 computes v = x + residual, the sums of both sides, and the bits v >= 0.
// Pass 2 computes the new residual. While a block stays in L1, x and residual are read once and residual is
// written once: 12 bytes of memory traffic per element for floats. For a longer block, pass 2 reads from
// memory again.
//
// means: which elements share a pair of means.
//
//   block   `block` elements.
//   column  A column of a column-major matrix of `rows` rows and leading dimension `ld`. Its `rows` elements
//           are one block, and the ld - rows elements up to the next column are another. Vectors are cut at
//           columns. Only the caller knows `rows`; without it, the same as block. Columns of fewer than 3
//           floats grow.
//   tensor  All elements of one call. One NaN marks them all.
//
// split: where the two sides of a block meet.
//
//   mean    At the mean of the block where that is further from zero than 1/16 of the distance of the side
//           means, and else at zero. Pass 1 runs twice for blocks that are split at the mean, in L1. For the
//           same partition, the side means are never worse than the mean plus or minus the mean distance from
//           it (Microsoft CNTK, non-zero threshold). Values so large that v - mean might overflow are split
//           at zero.
//   zero    As published (Seide et al. 2014).
//
// A block with a NaN or Inf sends no values. Its bits mark the non-finite elements, and `above` is their
// decoded value (+Inf or -Inf if they all are, else NaN). `below` is 0, and every finite element stays in the
// residual. In a call without residuals, `below` is NaN.
//
// Wire, per block: Means<T>, then ceil(n / 8) bytes of bits. For floats that is 1/8 + 8/n bytes per element.
// The wire does not show how v was split.
#pragma once
#include "kernels/host/loops-inl.hpp"

struct OneBit {
  static constexpr std::string_view kName = "onebit";
  static constexpr std::string_view kWhat =
      "sign bit and two side means a block (1-bit SGD, Seide et al. 2014)";
  static constexpr std::uint16_t kId = 3;
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  static constexpr Form form(const Params&) { return Form::two_values; }
  template <class T>
  using Family = Loops<T, OneBit>;

  // Parameters.
  static constexpr std::array<std::string_view, 3> kMeansWords{"block", "column", "tensor"};
  static constexpr std::array<std::string_view, 2> kSplitWords{"zero", "mean"};
  static constexpr std::array kSpecs{
      ParamSpec{"block",
                "elements that share a pair of means",
                ParamKind::power_of_two,
                2048,
                32,
                4096,
                {},
                "means",
                2},
      ParamSpec{"means", "what shares a pair of means", ParamKind::word, 0, 0, 2, kMeansWords},
      ParamSpec{"split", "the bit says: at least this", ParamKind::word, 1, 0, 1, kSplitWords},
      ParamSpec{"rows", "elements of a column; 0: as means=block", ParamKind::integer, 0, 0, 0x1p31},
      ParamSpec{"ld", "from column to column in elements; 0: rows", ParamKind::integer, 0, 0, 0x1p31}};

  // Wire format.
  static constexpr bool whole(const Params& p) { return onebit::whole(p); }
  static constexpr std::size_t block(const Params& p) { return onebit::block(p); }
  static constexpr Cut cut(const Params& p, std::size_t n) { return onebit::cut(p, n); }
  template <class T>
  static constexpr std::size_t code_bytes(std::size_t n) {
    return onebit::code_bytes(n);
  }
  template <class T>
  using Means = onebit::Means<T>;

  // Encode.
  // The result of pass 1 of a block.
  template <class T>
  struct Sides : onebit::Sides<T> {
    MQ_INLINE Sides() {}  // not implicit: that would be compiled for the baseline processor
    MQ_INLINE bool again(const Params& params) {
      return onebit::Sides<T>::again(onebit::splits_at_mean(params));
    }
  };

  // The sums of a piece of a block. The bits are written to the wire immediately, because they do not depend
  // on the means. With kHuge it also serves pieces whose sums exceed the range of T.
  template <class T, bool kHuge>
  struct Stat {
    SplitSum<T, kHuge> sum;
    Lanes<T> threshold;
    std::size_t n_above = 0;

    explicit MQ_INLINE Stat(const Sides<T>& sides) : threshold(Lanes<T>::all(sides.threshold)) {}
    template <class W>
    MQ_INLINE void add(const Lanes<T>& v, std::byte* codes, W width) {
      const auto mask = v.at_least(threshold);
      const std::uint32_t bits = mask.bits() & width.bits;
      sum.add(v, mask);
      n_above += static_cast<std::size_t>(std::popcount(bits));
      store_bits(codes, bits, width);
    }
    // False if a sum is not finite; then `sides` is unchanged.
    MQ_INLINE bool finish(std::size_t n, Sides<T>& sides) const {
      const double above = sum.total(sum.set), below = sum.total(sum.clear);
      if (!std::isfinite(above) || !std::isfinite(below)) return false;
      sides.join(mean(below, n - n_above), n - n_above, mean(above, n_above), n_above);
      return true;
    }

   private:
    static MQ_INLINE double mean(double total, std::size_t count) {
      return onebit::mean_of(total, count, SplitSum<T, kHuge>::kScale);
    }
  };

  // Pass 2: the values of v that the receivers will decode.
  template <class T, class W>
  static MQ_INLINE Lanes<T> put(const Lanes<T>& v, const Sides<T>& sides, std::byte*, W) {
    const Means<T> means = sides.means();
    return Lanes<T>::select(v.at_least(Lanes<T>::all(sides.threshold)), Lanes<T>::all(means.above),
                            Lanes<T>::all(means.below));
  }
  // Writes codes that decode to `mark` where bits is 1 and to `rest` elsewhere, with the scale marks(mark,
  // rest).
  template <class W>
  static MQ_INLINE void put_marks(std::uint32_t bits, std::byte* codes, W width) {
    store_bits(codes, bits, width);
  }
  template <class T>
  static MQ_INLINE Means<T> marks(T mark, T rest) {
    return {rest, mark};
  }

  // Decode.
  template <class T, class W>
  static MQ_INLINE Lanes<T> get(Means<T> scale, const std::byte* codes, W width) {
    return Lanes<T>::pick(load_bits(codes, width), scale.above, scale.below);
  }
  // encode writes 0 to the bits after the last element of the last byte.
  static MQ_INLINE bool padding_ok(const std::byte* codes, std::size_t n) {
    return n % 8 == 0 || (std::to_integer<unsigned>(codes[n / 8]) >> (n % 8)) == 0;
  }

  // Bounds.
  // |v|^2 - |v - decoded|^2 is at least |v|_1^2 / n, and that is at least |v|^2 / n.
  static constexpr bool contraction(const Params&) { return true; }
};
