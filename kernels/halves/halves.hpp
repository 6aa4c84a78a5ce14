// What the host and GPU rows of bf16(round=stochastic) and f16(scale=block) share: the wire, and the scale of
// a block. bf16.hpp and f16.hpp describe them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/float_bits.hpp"
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
  // The greatest magnitude that does not round up to 2^15.
  static constexpr T kMost = static_cast<T>(0x1.ffcp14);

  // The scale of a block, by the exponent field of its greatest finite magnitude. Halves times
  // FloatBits::power_of_field(scale) are the elements.
  MQ_HD static constexpr int scale_of(int field) {
    return (field < kTop + 1 ? kTop + 1 : field > kGreatest ? kGreatest : field) - kTop;
  }
  // Whether encode can have written it.
  MQ_HD static constexpr bool in_range(int scale) { return scale >= 1 && scale <= kGreatest - kTop; }
  // What elements are multiplied by.
  MQ_HD static constexpr T up(int scale) { return FloatBits<T>::power_of_field(kGreatest - scale); }
  // With this scale, rounding up could decode to more than the greatest number of T: elements are first
  // brought within kMost.
  MQ_HD static constexpr bool clamps(int scale) { return scale == kGreatest - kTop; }
  MQ_HD static constexpr std::size_t bytes(std::size_t n) {
    return 2 * n + (n + kBlock - 1) / kBlock * sizeof(Scale);
  }
};

}  // namespace mq::kernels
