// The functions of a DeviceRow of a codec that codes every element alone in a fixed number of bytes
// (dense.cuh).
#pragma once

#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/rows.hpp"

namespace mq::kernels::dense {

constexpr std::size_t tiles(std::size_t n) { return (n + kTile - 1) / kTile; }

// The names of a row's kernels, and the size of a code in bytes.
struct Elements {
  const char *encode, *decode;
  std::size_t code_bytes;
};

inline std::size_t scratch_bytes(std::size_t, const Params&) noexcept { return 16; }  // not used

template <const Elements& kGives>
void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
  const EncodeArgs& a = e.args;
  if (a.n == 0) return nothing(e, launch);
  launch(kGives.encode, grid_of(tiles(a.n), e.shape), kThreads, 0,
         EncodeElements{static_cast<const std::byte*>(a.x), static_cast<std::byte*>(a.residual), a.wire, a.n,
                        a.n * kGives.code_bytes, e.encoded, a.feedback});
}

template <const Elements& kGives>
void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
  const DecodeArgs& a = d.args;
  if (a.wire_bytes != a.n * kGives.code_bytes) return refuse(d, launch);
  if (a.n > 0)
    launch(kGives.decode, grid_of(tiles(a.n), d.shape), kThreads, 0,
           DecodeElements{a.wire, static_cast<const std::byte*>(a.base), static_cast<std::byte*>(a.x), a.n});
}

template <const Elements& kGives>
constexpr DeviceOps kOps{&scratch_bytes, &encode<kGives>, &decode<kGives>, true};

}  // namespace mq::kernels::dense
