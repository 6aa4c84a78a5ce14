// Launches of the rows that code every element alone: raw, bf16, f16. Also the launches for empty and
// refused vectors, which onebit shares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/names.hpp"

namespace mq::kernels::dense {

inline constexpr std::uint32_t kThreads = 256, kTile = 16 * kThreads;

struct EncodeElements {
  const std::byte* x;
  std::byte *residual, *wire;
  std::uint64_t n, bytes;  // bytes: of the wire
  DeviceEncoded* encoded;
  Feedback feedback;
};
struct DecodeElements {
  const std::byte *wire, *base;
  std::byte* x;
  std::uint64_t n;
};
struct Nothing {
  DeviceEncoded* encoded;
};
struct Refuse {
  std::uint32_t* malformed;
};
struct Divide {
  std::byte* x;
  std::uint64_t n;
  double divisor;
};
struct Bring {
  std::byte* to;
  const std::byte* from;
  std::uint64_t bytes;
};

// Number of thread blocks for this many pieces of work, if a block costs little: one per piece, so that no
// multiprocessor waits for the last pieces of another. If there are very many pieces, each block takes
// several in turn.
constexpr std::size_t grid_of(std::size_t pieces, const DeviceShape& shape) {
  const std::size_t most = std::size_t{128} * shape.multiprocessors;
  return pieces < most ? (pieces > 0 ? pieces : 1) : most;
}
// An encode of no elements.
inline void nothing(const DeviceEncode& e, const Launcher& launch) {
  launch(names::encode_nothing, 1, 32, 0, Nothing{e.encoded});
}
inline void refuse(const DeviceDecode& d, const Launcher& launch) {
  launch(names::decode_refuse, 1, 32, 0, Refuse{d.malformed});
}

}  // namespace mq::kernels::dense
