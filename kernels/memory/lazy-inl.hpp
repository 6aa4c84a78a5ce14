// lazy: a rank sends only if its vector has moved far enough from its estimate (Chen, Giannakis, Sun, Yin:
// LAG, NeurIPS 2018; CLAG of Richtarik et al., ICML 2022). As ef21, but a rank sends only if |x - h|^2 > zeta
// |x - y|^2, where y is its vector of the call before. Else its estimate stays as it is, and others get
// headers from it. With codec raw it is LAG, with others CLAG. If no rank sends, the call ends with the
// agreement. zeta = 0 sends whenever x differs from h.
#pragma once
#include "kernels/host/estimates-inl.hpp"

struct Lazy : Estimates {
  static constexpr std::string_view kName = "lazy";
  static constexpr std::string_view kWhat =
      "as ef21, but a rank whose vector is near enough to its estimate sends nothing (LAG; CLAG of Richtarik et al. 2022)";
  static constexpr std::uint8_t kId = 6;
  static constexpr std::array kSpecs{
      ParamSpec{"zeta", "a rank sends if |x - h|^2 > zeta |x - y|^2, y its last vector", ParamKind::real, 1,
                0, 1e30},
      kMostSkipped, kResync};
  static constexpr int kArrays = 3;

  static constexpr EstimateTerms terms(const Params& params) {
    return {.form = kId,
            .resync = static_cast<std::uint64_t>(params.value[2]),
            .max_skipped = static_cast<std::uint64_t>(params.value[1]),
            .zeta = params.value[0]};
  }
  template <class T>
  static MQ_RULE Operand before(const MemoryTile& tile) {
    return from_estimate<T>(tile);
  }
  template <class T>
  static MQ_RULE void after(const MemoryTile& tile) {
    learn<T>(tile);
    keep_last<T>(tile);
  }
  template <class T>
  static MQ_RULE void skip(const MemoryTile& tile) {
    keep_last<T>(tile);
  }
};
