// How bf16(round=stochastic) and f16(scale=block) lie on the wire, for launches and kernels: see
// halves/bf16.hpp and halves/f16.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/hd.hpp"

namespace mq::kernels {

// n words of 16 bits. Only the random numbers make blocks useful: four groups of 32 elements share draws.
template <class T>
struct DitheredWire {
  static constexpr std::size_t kBlock = 256;
  MQ_HD static constexpr std::size_t bytes(std::size_t n) { return 2 * n; }
};

// Each block: its scale, then n halves.
template <class T>
struct ScaledHalfWire {
  using Scale = std::conditional_t<sizeof(T) == 4, std::uint8_t, std::uint16_t>;
  static constexpr std::size_t kBlock = 256;
  // The greatest magnitude of a block is scaled to this power of two; the exponent field of the greatest
  // finite one.
  static constexpr int kTop = 14, kGreatest = sizeof(T) == 4 ? 254 : 2046;
  MQ_HD static constexpr std::size_t bytes(std::size_t n) {
    return 2 * n + (n + kBlock - 1) / kBlock * sizeof(Scale);
  }
};

}  // namespace mq::kernels
