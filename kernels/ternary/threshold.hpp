// threshold: sends an element, as +tau or -tau, in the call in which its magnitude reaches tau. The excess
// over tau and all other elements wait in the residual (Strom: Scalable distributed DNN training using
// commodity GPU cloud computing, Interspeech 2015). An element sends at most one tau per call, so the
// residual grows if inputs are greater than tau. tau is not a contraction and has no universal value: specify
// it, or let the first call of a key measure a quantile of the magnitudes.
//
// If tau is a power of two (round=pow2), decoded + residual == v exactly while |v| < 2^24 tau.
//
// Wire: see kernels/ternary/wire-inl.hpp. For floats of which one in 32 is sent, 0.033 bytes per
// element.
#pragma once
#include "kernels/ternary/host-inl.hpp"

struct Threshold {
  static constexpr std::string_view kName = "threshold";
  static constexpr std::string_view kWhat = "+tau or -tau where that much has accumulated (Strom 2015)";
  static constexpr std::uint16_t kId = 5;
  static constexpr bool kLossless = false;
  static constexpr Form form(const Params&) { return Form::three_values; }
  template <class T>
  using Family = Ternary<T, Threshold>;
  static constexpr bool kMeans = false;

  // Parameters.
  static constexpr std::array<std::string_view, 2> kRounds{"no", "pow2"};
  static constexpr std::array kSpecs{
      ParamSpec{"tau", "what an entry stands for", ParamKind::real, 1, 1e-18, 1e18},
      ParamSpec{"quantile",
                "tau becomes this quantile of the magnitudes, the greatest of all ranks; 0: as given",
                ParamKind::real,
                0,
                0,
                0.999999,
                {},
                "tau"},
      ParamSpec{"round", "tau to the nearest power of two", ParamKind::word, 0, 0, 1, kRounds},
      ParamSpec{"block", "elements that share a header", ParamKind::power_of_two, 16384, 64, kMaxSparseBlock},
      ParamSpec{"format", "of the entries", ParamKind::word, 0, 0, 4, kTernaryFormats}};

  static Measures measures(const Params& p) noexcept {
    return p.value[1] > 0 ? Measures::once_a_key : Measures::nothing;
  }
  // Measures tau: the magnitude that a share of 1 - quantile of the elements reach, rounded down by at most
  // 2^-11 of itself. If fewer elements are not 0, all of these reach it. Non-finite elements do not count.
  // The result is 0, which changes no parameter, if no element counts.
  //
  // The vector is read twice: for a histogram of the upper 11 bits of the magnitudes, and for a histogram of
  // the next 11 bits in the bin that holds the quantile. The histograms are counts, so the result is the same
  // on every instruction set.
  template <class T>
  static Measured measure(const std::byte* x, std::size_t n, const Params& p) {
    constexpr int kBinBits = 11, kKeyBits = 8 * sizeof(T) - 1;
    constexpr std::size_t kBins = std::size_t{1} << kBinBits;
    const DefaultFloatingPoint environment;
    std::size_t k = ThresholdParams::rank(p, n);
    Key<T> prefix = 0;
    int shift = kKeyBits;
    for (int level = 0; level < 2; ++level) {
      std::size_t count[kBins] = {};
      for (std::size_t i = 0; i < n; ++i) {
        const Key<T> key = key_of(element<T>(x, i)) & ~kSignBit<T>;
        if (key >> shift == prefix && key - 1 < kMaxKey<T>) ++count[key >> (shift - kBinBits) & (kBins - 1)];
      }
      const std::size_t all = std::accumulate(std::begin(count), std::end(count), std::size_t{0});
      if (all == 0) return {};
      k = std::min(k, all);
      std::size_t bin = kBins;
      while (k > count[bin - 1]) k -= count[--bin];
      prefix = prefix << kBinBits | (bin - 1);
      shift -= kBinBits;
    }
    return {static_cast<double>(magnitude_of<T>(prefix << shift))};
  }
  static Params settle(const Params& p, const Measured& measured) noexcept {
    Params settled = p;
    if (measured[0] > 0) settled.value[0] = std::clamp(measured[0], kSpecs[0].min, kSpecs[0].max);
    return settled;
  }

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return ThresholdParams(p).block; }
  static constexpr TernaryFormat format(const Params& p) { return ThresholdParams(p).format; }
  template <class T>
  static MQ_INLINE T value(const Params& p) {
    return ThresholdParams(p).value<T>();
  }

  // Encode.
  template <class T>
  static MQ_INLINE Key<T> first_floor(const Params& p) {
    return key_of(value<T>(p)) - 1;  // selects from tau on
  }
  template <class T>
  static MQ_INLINE Key<T> next_floor(const Params& p, const Selection<T>&) {
    return first_floor<T>(p);
  }
  template <class T>
  static MQ_INLINE Selection<T> select(const Candidates<T>& block, const Params&) {
    const Cutoff<T> cutoff{magnitude_of<T>(block.floor), 0};
    return {{cutoff, cutoff}, block.n};
  }
};
