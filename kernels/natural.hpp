// How natural compression lies on the wire. Host and GPU rows share this file.
#pragma once

#include <cstddef>

#include "kernels/hd.hpp"

namespace mq::kernels {

template <class T>
struct NaturalWire {
  static constexpr std::size_t kGroup =
      sizeof(T) == 4 ? 36 : 48;  // of 32 elements; the last 4 bytes are signs
  MQ_HD static constexpr std::size_t bytes(std::size_t n) { return (n + 31) / 32 * kGroup; }
};

}  // namespace mq::kernels
