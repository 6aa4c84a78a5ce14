// ef21: error feedback by estimates (Richtarik, Sokolov, Fatkhullin, NeurIPS 2021; a three-point compressor,
// Richtarik et al., ICML 2022). A rank keeps an estimate h of its vector and sends the change alone: C(x -
// h), h += decoded. The result is the sum of all estimates, which all ranks keep. It follows the sum of the
// vectors: for vectors that do not change the distance shrinks in every call by what the codec's error
// allows. It suits gradients that change slowly (large batches). Noise of small batches is followed late,
// where carry delivers it in full.
//
// With info mpiq_skip = "true" a rank sends nothing and its estimate stays as it is (SASG: Deng, Li, Sun, Lu,
// arXiv 2112.04088).
//
// In an allgather and a broadcast all ranks keep a mirror, the same estimate X of the whole vector. The owner
// of a part sends C(x - X). All ranks, the owner too, add what they decode to X. X is the result. So
// parameters that change little are gathered with few bits, and the error does not stay (SDP4Bit: Jia et al.,
// NeurIPS 2024, quantizes differences of weights; CHOCO: Koloskova, Stich, Jaggi, ICML 2019, keeps such
// copies).
#pragma once
#include "kernels/host/estimates-inl.hpp"

struct Ef21 : Estimates {
  static constexpr std::string_view kName = "ef21";
  static constexpr std::string_view kWhat =
      "sends how each rank's estimate of its vector changes; the result is the sum of estimates (Richtarik et al. 2021)";
  static constexpr std::uint8_t kId = 5;
  static constexpr std::array kSpecs{kResync, kMostSkipped};
  static constexpr int kArrays = 2;
  static constexpr bool kMirrors = true;

  static constexpr EstimateTerms terms(const Params& params) {
    return {.form = kId,
            .resync = static_cast<std::uint64_t>(params.value[0]),
            .max_skipped = static_cast<std::uint64_t>(params.value[1])};
  }
  template <class T>
  static MQ_RULE Operand before(const MemoryTile& tile) {
    return from_estimate<T>(tile);
  }
  template <class T>
  static MQ_RULE void after(const MemoryTile& tile) {
    learn<T>(tile);
  }
};
