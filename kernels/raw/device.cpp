// The device row of raw (device.cuh).
#include "kernels/cuda/element_row.hpp"

namespace mq::kernels {
namespace {

constexpr dense::Elements kRaw = MQ_ELEMENTS(raw, 4, 8);

}  // namespace

constinit const DeviceRow raw_device_row{{dense::kOps<kRaw, float>, dense::kOps<kRaw, double>}};

}  // namespace mq::kernels
