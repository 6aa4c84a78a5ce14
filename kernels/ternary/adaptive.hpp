// adaptive: sends the n / pi elements of greatest magnitude of every block, as sign and position. They decode
// to the mean of the sent elements of their sign (Dryden, Jacobs, Moon, Van Essen: Communication quantization
// for data-parallel training of deep neural networks, MLHPC 2016). Unlike with a fixed threshold, the volume
// is known beforehand, whatever the scale of the data.
//
//   search=exact       The k = max(1, round(n / pi)) largest of a block of n. Ties: lowest position first.
//                      Fewer if fewer are not 0.
//   search=approx      All above a bound, which is found in one element of 16. If these are not k / 2 to 2 k
//                      elements, an exact search follows.
//   search=dryden2016  As published. 128 elements are sampled; the greatest 1 / pi of each sign (at least 1)
//                      give the bounds. The means are of all elements sent. At most 4 k; the rest stays
//                      in the residual. If the sample has no element of a sign, the other bound is used.
//   signs=separate     n / pi of the positive elements, and n / pi of the negative ones (exact or approx).
//
// Wire: see kernels/ternary/wire-inl.hpp. For floats at pi = 32, 0.033 bytes per element.
#pragma once
#include "kernels/ternary/host-inl.hpp"

struct Adaptive {
  static constexpr std::string_view kName = "adaptive";
  static constexpr std::string_view kWhat =
      "the largest 1/pi of a block as sign and side mean (Dryden et al. 2016)";
  static constexpr std::uint16_t kId = 6;
  static constexpr bool kLossless = false;
  static constexpr Form form(const Params&) { return Form::three_values; }
  template <class T>
  using Family = Ternary<T, Adaptive>;
  static constexpr bool kMeans = true;

  // Parameters.
  static constexpr std::array<std::string_view, 3> kSearches{"exact", "approx", "dryden2016"};
  static constexpr std::array<std::string_view, 2> kSigns{"joint", "separate"};
  static constexpr std::array kSpecs{
      ParamSpec{"pi", "one element in pi is sent", ParamKind::real, 32, 1, 65536},
      ParamSpec{"block", "elements that share a count and a pair of means", ParamKind::power_of_two, 16384,
                64, kMaxSparseBlock},
      ParamSpec{"search", "how the largest are found", ParamKind::word, 0, 0, 2, kSearches},
      ParamSpec{"signs", "counted together or apart", ParamKind::word, 0, 0, 1, kSigns},
      ParamSpec{"format", "of the entries", ParamKind::word, 0, 0, 4, kTernaryFormats}};

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return AdaptiveParams(p).block; }
  static constexpr TernaryFormat format(const Params& p) { return AdaptiveParams(p).format; }

  // Encode.
  // No floor is known for the first block, so it begins with a sample.
  template <class T>
  static MQ_INLINE Key<T> first_floor(const Params&) {
    return kMaxKey<T>;
  }
  template <class T>
  static MQ_INLINE Key<T> next_floor(const Params&, const Selection<T>& last) {
    return floor_below(last);
  }

  template <class T>
  static Selection<T> select(Candidates<T>& block, const Params& params) {
    const AdaptiveParams p(params);
    const std::size_t k = adaptive_share(block.n, p.pi);
    if (p.search == Search::dryden2016) return dryden(block, p.pi);
    if (p.search == Search::approx) {
      const Selection<T> selection = sampled(block, p.pi, p.separate);
      if (near_enough(count_selected(block, selection), k)) return selection;
    }
    if (!p.separate) return joint_selection(block, exact_cutoff(block, kBoth, k));
    Selection<T> selection{{}, block.n};
    for (const Side side : {kBelow, kAbove})
      selection.side[side] = exact_cutoff(block, side, adaptive_share(size_of(block, side), p.pi));
    return selection;
  }

 private:
  // Number of finite elements of one sign.
  template <class T>
  static std::size_t size_of(const Candidates<T>& block, Side side) {
    return count_at_least<T>(block.v, block.n, side, 1) -
           count_at_least<T>(block.v, block.n, side, kMaxKey<T> + 1);
  }

  template <class T>
  static Selection<T> sampled(Candidates<T>& block, double pi, bool separate) {
    Selection<T> selection{{}, block.n};
    for (const Side side : {kBelow, kAbove}) {
      const Side counted = separate ? side : kBoth;
      Cutoff<T>& cutoff = selection.side[side];
      const std::size_t k = adaptive_share(separate ? size_of(block, side) : block.n, pi);
      if (!sampled_cutoff(block, counted, k, cutoff)) cutoff = {T{0}, 0};
      cutoff = {magnitude_of<T>(key_of(cutoff.bound) - (cutoff.ties > 0)), 0};
    }
    return selection;
  }

  template <class T>
  static Selection<T> dryden(const Candidates<T>& block, double pi) {
    T magnitude[2][DrydenSample::kCount];
    std::size_t count[2] = {0, 0};
    for (std::uint32_t i = 0; i < DrydenSample::kCount; ++i) {
      const T v = element<T>(block.v, DrydenSample::position(i, block.n));
      if (v != T{0} && std::isfinite(v)) magnitude[v > 0][count[v > 0]++] = std::abs(v);
    }
    T least[2] = {T{0}, T{0}};
    for (const Side side : {kBelow, kAbove}) {
      if (count[side] == 0) continue;
      T* const kth = magnitude[side] + adaptive_share(count[side], pi) - 1;
      std::nth_element(magnitude[side], kth, magnitude[side] + count[side], std::greater<T>());
      least[side] = *kth;
    }
    Selection<T> selection{{}, DrydenSample::kExcess * adaptive_share(block.n, pi)};
    for (const Side side : {kBelow, kAbove}) {
      const T tau = count[side] > 0 ? least[side] : least[1 - side];
      selection.side[side] = {tau > T{0} ? magnitude_of<T>(key_of(tau) - 1) : T{0}, 0};
    }
    return selection;
  }

 public:
  // Bounds.
  // The greatest magnitude is sent, and means leave less than they send. dryden2016 may stop before the
  // greatest.
  static constexpr bool contraction(const Params& p) {
    return AdaptiveParams(p).search != Search::dryden2016;
  }
};
