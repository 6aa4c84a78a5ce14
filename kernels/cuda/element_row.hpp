// The functions of a DeviceRow of a codec that codes every element alone in a fixed number of bytes
// (dense.cuh).
#pragma once

#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/names.hpp"
#include "kernels/cuda/rows.hpp"

namespace mq::kernels::dense {

constexpr std::size_t tiles(std::size_t n) { return (n + kTile - 1) / kTile; }

// A row's kernels, and the size of a code in bytes, for floats and doubles.
struct Elements {
  NamesByType encode, decode;
  std::array<std::size_t, 2> code_bytes;
};
// The kernels of MQ_DENSE_KERNELS(name_f32, ...) and MQ_DENSE_KERNELS(name_f64, ...).
#define MQ_ELEMENTS(name, ...)                                          \
  mq::kernels::dense::Elements {                                        \
    MQ_NAMES_BY_TYPE(name, _encode), MQ_NAMES_BY_TYPE(name, _decode), { \
      { __VA_ARGS__ }                                                   \
    }                                                                   \
  }

template <const Elements& kGives, class T>
constexpr std::size_t kCodeBytes = kGives.code_bytes[sizeof(T) == 8 ? 1 : 0];

inline std::size_t scratch_bytes(std::size_t, const Params&) noexcept { return 16; }  // not used

template <const Elements& kGives, class T>
void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
  const EncodeArgs& a = e.args;
  if (a.n == 0) return nothing(e, launch);
  launch(name_for<T>(kGives.encode), grid_of(tiles(a.n), e.shape), kThreads, 0,
         EncodeElements{static_cast<const std::byte*>(a.x), static_cast<std::byte*>(a.residual), a.wire, a.n,
                        a.n * kCodeBytes<kGives, T>, e.encoded, a.feedback});
}

template <const Elements& kGives, class T>
void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
  const DecodeArgs& a = d.args;
  if (a.wire_bytes != a.n * kCodeBytes<kGives, T>) return refuse(d, launch);
  if (a.n > 0)
    launch(name_for<T>(kGives.decode), grid_of(tiles(a.n), d.shape), kThreads, 0,
           DecodeElements{a.wire, static_cast<const std::byte*>(a.base), static_cast<std::byte*>(a.x), a.n});
}

template <const Elements& kGives, class T>
constexpr DeviceOps kOps{&scratch_bytes, &encode<kGives, T>, &decode<kGives, T>, true};

}  // namespace mq::kernels::dense
