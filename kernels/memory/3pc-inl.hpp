// 3pc: further three-point compressors (Richtarik, Sokolov, Gasanov, Fatkhullin, Li, Gorbunov: 3PC, ICML
// 2022). Numbers as there. With h, y and H as in estimates-inl.hpp, C the codec, and b what is between a
// rank's two messages:
//   2: b = h + Q(x - y), h = b + C(x - b)   C and Q are the codec, which must be unbiased
//   3: b = h, or as ef21 if |x - h|^2 > zeta |x - y|^2; h = b + C(x - b)
//   4: b = h + C(x - h), h = b + C(x - b)
//   5: h = x with probability p, by a coin that all ranks share; else h = h + C(x - y)
// Versions 2 to 4 encode twice: a rank's own message is up to twice as long. Sums are encoded once.
#pragma once
#include "kernels/host/estimates-inl.hpp"

struct ThreePoint : Estimates {
  static constexpr std::string_view kName = "3pc";
  static constexpr std::string_view kWhat =
      "as ef21, with two messages (v=2, 3, 4) or exact calls by a shared coin (v=5) (Richtarik et al. 2022)";
  static constexpr std::uint8_t kId = 7;
  static constexpr std::array kSpecs{
      ParamSpec{"v", "the version", ParamKind::integer, 4, 2, 5},
      ParamSpec{"p", "v=5: how probable it is that a call is exact", ParamKind::real, 0.01, 0, 1},
      ParamSpec{"zeta", "v=3: the first message is sent if |x - h|^2 > zeta |x - y|^2", ParamKind::real, 1, 0,
                1e30},
      kMostSkipped, kResync};
  static constexpr int kArrays = 3;

  static constexpr int version(const Params& params) { return static_cast<int>(params.value[0]); }
  static constexpr EstimateTerms terms(const Params& params) {
    const int v = version(params);
    return {.form = static_cast<std::uint8_t>(16 * v + kId),
            .resync = static_cast<std::uint64_t>(params.value[4]),
            .max_skipped = static_cast<std::uint64_t>(params.value[3]),
            .exact_chance = v == 5 ? params.value[1] : 0,
            .zeta = v == 3 ? params.value[2] : -1,
            .messages = v == 5 ? 1 : 2,
            .needs_unbiased = v == 2};
  }
  static MQ_RULE bool is_from_last(const MemoryTile& tile) {
    const int v = version(tile.params);
    return !tile.exact_restart && (v == 5 || (v == 2 && tile.message == 0));
  }
  template <class T>
  static MQ_RULE Operand before(const MemoryTile& tile) {
    return is_from_last(tile) ? from_last<T>(tile) : from_estimate<T>(tile);
  }
  template <class T>
  static MQ_RULE void after(const MemoryTile& tile) {
    if (is_from_last(tile))
      learn_from_last<T>(tile);
    else
      learn<T>(tile);
    if (tile.exact_restart || tile.message + 1 == terms(tile.params).messages) keep_last<T>(tile);
  }
  // Version 5 sends the change from y, which must be what h was last brought to.
  template <class T>
  static MQ_RULE void skip(const MemoryTile& tile) {
    if (version(tile.params) != 5) keep_last<T>(tile);
  }
};
