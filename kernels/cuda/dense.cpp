// The device rows of raw, bf16 and f16 (dense.cuh).

#include "kernels/cuda/dense.hpp"

#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace {

using namespace dense;

constexpr std::size_t tiles(std::size_t n) { return (n + kTile - 1) / kTile; }

// The names of a row's kernels, and the size of a code in bytes.
struct Elements {
  const char *encode, *decode;
  std::size_t code_bytes;
};
constexpr Elements kRaw32{"raw_f32_encode", "raw_f32_decode", 4};
constexpr Elements kRaw64{"raw_f64_encode", "raw_f64_decode", 8};
constexpr Elements kBf32{"bf16_f32_encode", "bf16_f32_decode", 2};
constexpr Elements kBf64{"bf16_f64_encode", "bf16_f64_decode", 2};
constexpr Elements kF32{"f16_f32_encode", "f16_f32_decode", 2};
constexpr Elements kF64{"f16_f64_encode", "f16_f64_decode", 2};

std::size_t scratch_bytes(std::size_t, const Params&) noexcept { return 16; }  // not used

// Neither at random nor with the scale of a block: with these parameters the vectors are staged through the host.
bool rounds_alone(const Params& params) noexcept { return params.value[0] == 0; }

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
constexpr DeviceOps kOps{&scratch_bytes, &encode<kGives>, &decode<kGives>};

}  // namespace

constinit const DeviceRow raw_device_row{"raw", {kOps<kRaw32>, kOps<kRaw64>}, {}};
constinit const DeviceRow bf16_device_row{"bf16", {kOps<kBf32>, kOps<kBf64>}, {}, &rounds_alone};
constinit const DeviceRow f16_device_row{"f16", {kOps<kF32>, kOps<kF64>}, {}, &rounds_alone};

}  // namespace mq::kernels
