// The device rows of raw, bf16 and f16 (dense.cuh), also of bf16 rounded at random and f16 with scales (halves.cuh).

#include "kernels/cuda/dense.hpp"

#include <algorithm>

#include "kernels/cuda/block_row.hpp"
#include "kernels/cuda/halves.hpp"
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

struct DitheredBf16 : block_rows::WithoutSettings<DitheredWire> {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(dithered_bf16);
};
struct ScaledF16 : block_rows::WithoutSettings<ScaledHalfWire> {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(scaled_f16);
};

// The one parameter of bf16 and f16 says whether elements are coded alone, or in blocks by Family.
bool codes_alone(const Params& params) { return params.value[0] == 0; }

template <const Elements& kGives, class Family, class T>
void encode_either(const DeviceEncode& e, const Launcher& launch) noexcept {
  codes_alone(e.args.params) ? encode<kGives>(e, launch) : block_rows::encode_as<Family, T>(e, launch);
}
template <const Elements& kGives, class Family, class T>
void decode_either(const DeviceDecode& d, const Launcher& launch) noexcept {
  codes_alone(d.args.params) ? decode<kGives>(d, launch) : block_rows::decode_as<Family, T>(d, launch);
}
template <const Elements& kGives, class Family, class T>
constexpr DeviceOps kEither{&scratch_bytes, &encode_either<kGives, Family, T>,
                            &decode_either<kGives, Family, T>};

}  // namespace

void device_bring(void* to, const void* from, std::size_t bytes, std::size_t most,
                  const Launcher& launch) noexcept {
  constexpr std::size_t kOfBlock = std::size_t{4} * 16 * kThreads;
  launch("bring_bytes", std::clamp<std::size_t>(most / kOfBlock, 1, 16), kThreads, 0,
         Bring{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes});
}

constinit const DeviceRow raw_device_row{{kOps<kRaw32>, kOps<kRaw64>}, {}};
constinit const DeviceRow bf16_device_row{
    {kEither<kBf32, DitheredBf16, float>, kEither<kBf64, DitheredBf16, double>}, {}};
constinit const DeviceRow f16_device_row{{kEither<kF32, ScaledF16, float>, kEither<kF64, ScaledF16, double>},
                                         {}};

}  // namespace mq::kernels
