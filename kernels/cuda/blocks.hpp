// Launches of the rows whose blocks have a fixed number of elements and of bytes, and depend on nothing but
// their own elements. On the host these are the families Integers, Trits and Microscaled. A family (its
// device.cuh) has Settings, and the functions that code one block with one warp (blocks.cuh).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/dense.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels::block_rows {

inline constexpr std::uint32_t kWarps = 8;
inline constexpr std::uint32_t kSharedBytes = 48 << 10;

// How a vector is cut. The last block may have fewer elements, and then has fewer bytes.
struct Cut {
  std::uint64_t n, blocks;        // elements of the vector, and its blocks
  std::uint32_t elements, bytes;  // of a whole block
};

struct Fixed {};  // Settings of a family that has none

template <class Settings>
struct Encode {
  const std::byte* x;
  std::byte *residual, *wire;
  std::uint64_t bytes;  // of the wire
  DeviceEncoded* encoded;
  Cut cut;
  bool keeps;  // there is a residual
  NoiseIndex noise;
  Settings settings;
};

template <class Settings>
struct Decode {
  const std::byte *wire, *base;
  std::byte* x;
  Cut cut;
  std::uint32_t* malformed;
  Settings settings;
};

// Shared memory of a warp, which holds the wire of a block: copy_bytes reads whole words.
constexpr std::uint32_t warp_bytes(const Cut& cut) { return (cut.bytes + 4 + 15) / 16 * 16; }
constexpr std::uint32_t warps_of(const Cut& cut) {
  return std::clamp(kSharedBytes / warp_bytes(cut), 1u, kWarps);
}

inline std::size_t scratch_bytes(std::size_t, const Params&) noexcept { return 16; }  // not used

template <class Settings>
void encode(Kernel kernel, const DeviceEncode& e, const Cut& cut, std::uint64_t bytes,
            const Settings& settings, const Launcher& launch) {
  const EncodeArgs& a = e.args;
  if (a.n == 0) return dense::nothing(e, launch);
  const std::uint32_t warps = warps_of(cut);
  launch(kernel, dense::grid_of((cut.blocks + warps - 1) / warps, e.shape), 32 * warps,
         warps * warp_bytes(cut),
         Encode<Settings>{static_cast<const std::byte*>(a.x), static_cast<std::byte*>(a.residual), a.wire,
                          bytes, e.encoded, cut, a.residual != nullptr, a.noise, settings});
}

template <class Settings>
void decode(Kernel kernel, const DeviceDecode& d, const Cut& cut, std::uint64_t bytes,
            const Settings& settings, const Launcher& launch) {
  const DecodeArgs& a = d.args;
  if (a.wire_bytes != bytes) return dense::refuse(d, launch);
  if (a.n == 0) return;
  launch(kernel, dense::grid_of((cut.blocks + kWarps - 1) / kWarps, d.shape), 32 * kWarps, 0,
         Decode<Settings>{a.wire, static_cast<const std::byte*>(a.base), static_cast<std::byte*>(a.x), cut,
                          d.malformed, settings});
}

}  // namespace mq::kernels::block_rows
