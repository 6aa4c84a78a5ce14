// Launches of the rows that code every element by itself: raw, bf16, f16. The ends of a call, which onebit's
// launches share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.hpp"

namespace mq::kernels::dense {

inline constexpr std::uint32_t kThreads = 256, kPacksAThread = 4, kTile = kThreads * kPacksAThread * 4;

struct EncodeElements {
  const std::byte* x;
  std::byte *residual, *wire;
  std::uint64_t* counts;  // non-finite elements, one a thread block
  std::uint64_t n;
  Feedback feedback;
};
struct DecodeElements {
  const std::byte *wire, *base;
  std::byte* x;
  std::uint64_t n;
};
// *encoded, from the counts of `parts`.
struct Finish {
  const std::uint64_t* counts;
  std::uint64_t parts, bytes;
  DeviceEncoded* encoded;
};
struct Refuse {
  std::uint32_t* malformed;
};

// Thread blocks for so many pieces of work, where a block costs little: one a piece, so that no
// multiprocessor waits for another's last pieces; of very many each takes several in turn.
constexpr std::size_t grid_of(std::size_t pieces) {
  constexpr std::size_t kMost = 1 << 16;
  return pieces < kMost ? (pieces > 0 ? pieces : 1) : kMost;
}
inline void finish(const DeviceEncode& e, const std::uint64_t* counts, std::size_t parts, std::size_t bytes,
                   const Launcher& launch) {
  launch("encode_finish", 1, kThreads, 0, Finish{counts, parts, bytes, e.encoded});
}
inline void refuse(const DeviceDecode& d, const Launcher& launch) {
  launch("decode_refuse", 1, 32, 0, Refuse{d.malformed});
}

}  // namespace mq::kernels::dense
