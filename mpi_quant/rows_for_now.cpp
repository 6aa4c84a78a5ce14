// No device rows yet.
#include "kernels/device.hpp"
namespace mq::kernels {
__attribute__((weak)) const DeviceOps* device_ops(const Codec&, Element) noexcept { return nullptr; }
__attribute__((weak)) const DeviceConvertOps* device_convert(Element) noexcept { return nullptr; }
__attribute__((weak)) const DeviceProposeOps* device_propose(const Codec&, Element) noexcept {
  return nullptr;
}
}  // namespace mq::kernels
