// Kernels for a GPU that is only simulated (device_table.hpp): the rows of the host, so that every codec has
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/convert.hpp"
#include "kernels/cuda/dense.hpp"
#include "kernels/device.hpp"

namespace mq::test {

// The kernels: rows of the host, of the codec with this number.
namespace host_kernels {

struct Encode {
  kernels::DeviceEncode call;
  const kernels::CodecOps* ops;
};
struct Decode {
  kernels::DeviceDecode call;
  const kernels::CodecOps* ops;
};
struct Convert {
  const void* from;
  void *to, *residual;
  std::size_t n;
  kernels::Element element;
};

inline void run(std::string_view name, const void* args) {
  if (name == "encode") {
    Encode e;
    std::memcpy(&e, args, sizeof e);
    const kernels::Encoded encoded = e.ops->encode(e.call.args);
    *e.call.encoded = {encoded.bytes, encoded.nonfinite};
    std::memset(e.call.scratch, 0xee, 64);
  } else if (name == "decode") {
    Decode d;
    std::memcpy(&d, args, sizeof d);
    if (d.ops->decode(d.call.args) != kernels::Decoded::ok) *d.call.malformed = 1;
    std::memset(d.call.scratch, 0xdd, 64);
  } else if (name == "bring_bytes") {
    kernels::dense::Bring b;
    std::memcpy(&b, args, sizeof b);
    std::memcpy(b.to, b.from, b.bytes);
  } else {
    Convert c;
    std::memcpy(&c, args, sizeof c);
    const kernels::ConvertOps& ops = *kernels::convert(c.element, kernels::best_isa());
    name == "widen" ? ops.widen(c.from, c.to, c.n) : ops.narrow(c.from, c.to, c.residual, c.n);
  }
}

template <std::size_t kCodec, kernels::Element kElement>
const kernels::DeviceOps* ops() {
  static constexpr kernels::DeviceOps kOps{
      [](std::size_t n, const kernels::Params&) noexcept { return 64 + n / 2; },
      [](const kernels::DeviceEncode& call, const kernels::Launcher& launcher) noexcept {
        launcher("encode", 1, 32, 0,
                 Encode{call, kernels::codecs()[kCodec].ops(kElement, kernels::best_isa())});
      },
      [](const kernels::DeviceDecode& call, const kernels::Launcher& launcher) noexcept {
        launcher("decode", 1, 32, 0,
                 Decode{call, kernels::codecs()[kCodec].ops(kElement, kernels::best_isa())});
      }};
  return &kOps;
}

inline constexpr std::size_t kMostCodecs = 40;
template <kernels::Element kElement, std::size_t... I>
const kernels::DeviceOps* nth(std::size_t codec, std::index_sequence<I...>) {
  static const std::array<const kernels::DeviceOps*, sizeof...(I)> all{ops<I, kElement>()...};
  return all.at(codec);
}

template <kernels::Element kElement>
const kernels::DeviceConvertOps* convert() {
  static constexpr kernels::DeviceConvertOps kOps{
      [](const void* half, void* out, std::size_t n, const kernels::DeviceShape&,
         const kernels::Launcher& launcher) noexcept {
        launcher("widen", 1, 32, 0, Convert{half, out, nullptr, n, kElement});
      },
      [](const void* v, void* half, void* residual, std::size_t n, const kernels::DeviceShape&,
         const kernels::Launcher& launcher) noexcept {
        launcher("narrow", 1, 32, 0, Convert{v, half, residual, n, kElement});
      }};
  return &kOps;
}

}  // namespace host_kernels

}  // namespace mq::test
