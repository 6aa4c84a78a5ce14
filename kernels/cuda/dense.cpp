// The device rows of raw, bf16 and f16 (dense.cuh).

#include "kernels/cuda/dense.hpp"

#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace {

using namespace dense;

constexpr std::size_t tiles(std::size_t n) { return (n + kTile - 1) / kTile; }

// The names of a row's kernels, and the bytes of a code.
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

// A count for each tile at most, whatever the GPU.
std::size_t scratch_bytes(std::size_t n, const Params&) noexcept {
  return (tiles(n) + 1) * sizeof(std::uint64_t);
}

template <const Elements& kGives>
void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
  auto* const counts = reinterpret_cast<std::uint64_t*>(e.scratch);
  const std::size_t grid = grid_of(tiles(e.args.n));
  if (e.args.n > 0)
    launch(kGives.encode, grid, kThreads, 0,
           EncodeElements{static_cast<const std::byte*>(e.args.x), static_cast<std::byte*>(e.args.residual),
                          e.args.wire, counts, e.args.n, e.args.feedback});
  finish(e, counts, e.args.n > 0 ? grid : 0, e.args.n * kGives.code_bytes, launch);
}

template <const Elements& kGives>
void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
  const DecodeArgs& a = d.args;
  if (a.wire_bytes != a.n * kGives.code_bytes) return refuse(d, launch);
  if (a.n > 0)
    launch(kGives.decode, grid_of(tiles(a.n)), kThreads, 0,
           DecodeElements{a.wire, static_cast<const std::byte*>(a.base), static_cast<std::byte*>(a.x), a.n});
}

template <const Elements& kGives>
constexpr DeviceOps kOps{&scratch_bytes, &encode<kGives>, &decode<kGives>};

}  // namespace

constinit const DeviceRow raw_device_row{"raw", {kOps<kRaw32>, kOps<kRaw64>}, {}};
constinit const DeviceRow bf16_device_row{"bf16", {kOps<kBf32>, kOps<kBf64>}, {}};
constinit const DeviceRow f16_device_row{"f16", {kOps<kF32>, kOps<kF64>}, {}};

}  // namespace mq::kernels
