// The device rows of bf16 and f16: of elements coded alone, or in blocks (device.cuh).
#include "kernels/halves/halves.hpp"

#include "kernels/cuda/block_row.hpp"
#include "kernels/cuda/element_row.hpp"

namespace mq::kernels {
namespace {

using namespace dense;

constexpr Elements kBf16 = MQ_ELEMENTS(bf16, 2, 2), kF16 = MQ_ELEMENTS(f16, 2, 2);

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
  codes_alone(e.args.params) ? encode<kGives, T>(e, launch) : block_rows::encode_as<Family, T>(e, launch);
}
template <const Elements& kGives, class Family, class T>
void decode_either(const DeviceDecode& d, const Launcher& launch) noexcept {
  codes_alone(d.args.params) ? decode<kGives, T>(d, launch) : block_rows::decode_as<Family, T>(d, launch);
}
template <const Elements& kGives, class Family, class T>
constexpr DeviceOps kEither{&scratch_bytes, &encode_either<kGives, Family, T>,
                            &decode_either<kGives, Family, T>};

}  // namespace

constinit const DeviceRow bf16_device_row{
    {kEither<kBf16, DitheredBf16, float>, kEither<kBf16, DitheredBf16, double>}, {}};
constinit const DeviceRow f16_device_row{{kEither<kF16, ScaledF16, float>, kEither<kF16, ScaledF16, double>},
                                         {}};

}  // namespace mq::kernels
