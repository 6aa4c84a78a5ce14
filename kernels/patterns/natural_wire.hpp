// How natural compression lies on the wire. Host and GPU rows share this file.
#pragma once

#include <cstddef>

#include "kernels/float_bits.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels {

template <class T>
struct NaturalWire {
  // Bytes of 32 elements; the last 4 are signs.
  static constexpr std::size_t kGroup = sizeof(T) == 4 ? 36 : 48;
  // Elements that a warp of a GPU codes together. Any multiple of 32 gives the same wire; four groups share
  // random numbers.
  static constexpr std::size_t kBlock = 256;
  MQ_HD static constexpr std::size_t bytes(std::size_t n) { return (n + 31) / 32 * kGroup; }
};

}  // namespace mq::kernels
