// decay: error feedback that forgets (Chen, Hernandez, Huang, Rini: CO3, arXiv 2204.08211). v = x + beta e is
// encoded; e' = v - decoded. Over all ranks: sum of (x + beta e) = result + sum of e'. With beta = 1 it is
// carry. A smaller beta gives old residuals less weight, so that they do not add up to much where they go
// stale.
//
// A rank encodes each of its elements with its residual once in a call. So the residual is multiplied just
// before that, and a loss of a later hop is added to the new residual, as with carry.
#pragma once
#include "kernels/memory/faded-inl.hpp"

struct Decay {
  static constexpr std::string_view kName = "decay";
  static constexpr std::string_view kWhat =
      "error feedback that forgets: the residual is multiplied first (Chen et al. 2022)";
  static constexpr std::uint8_t kId = 3;
  static constexpr std::array kSpecs{
      ParamSpec{"beta", "the residual is multiplied by this before it is added", ParamKind::real, 0.9, 0, 1}};
  static constexpr int kArrays = 1;

  template <class T>
  static MQ_RULE Operand before(const MemoryTile& tile) {
    const Faded<T> faded(tile.params.value[0]);
    const auto x = array_at<T>(tile.x);
    const auto residual = array_at<T>(tile.array[0]);
    for_each_group(
        tile.n, [&](std::size_t g, auto width) __attribute__((always_inline)) {
          x.ask_next(g, tile.n), residual.ask_next(g, tile.n);
          residual.put(g, faded(residual.get(g, width)), width);
        });
    return {tile.x, tile.array[0]};
  }
};
