// The device row of raw (device.cuh).
#include "kernels/cuda/element_row.hpp"

namespace mq::kernels {
namespace {

constexpr dense::Elements kRaw32{"raw_f32_encode", "raw_f32_decode", 4};
constexpr dense::Elements kRaw64{"raw_f64_encode", "raw_f64_decode", 8};

}  // namespace

constinit const DeviceRow raw_device_row{{dense::kOps<kRaw32>, dense::kOps<kRaw64>}};

}  // namespace mq::kernels
