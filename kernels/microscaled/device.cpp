// The device rows of mxfp8, mxfp6, mxfp4 and minifloat (device.cuh), and of nvfp4 (nvfp4.cuh).

#include "kernels/cuda/block_row.hpp"
#include "kernels/microscaled/microscaled.hpp"

namespace mq::kernels {
namespace {

using FormatOf = SmallFloat (*)(const Params&);

template <FormatOf kFormat>
struct Microscaled {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(microscaled);
  template <class T>
  static SmallFloat settings(const Params& params) {
    return kFormat(params);
  }
  template <class T>
  static std::size_t block(const SmallFloat&) {
    return Microscale<T>::kBlock;
  }
  template <class T>
  static std::size_t wire_bytes(const SmallFloat& format, std::size_t n) {
    return Microscale<T>::wire_bytes(format, n);
  }
};

struct NvFp4 : block_rows::WithoutSettings<NvFp4Wire> {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(nvfp4);
};

}  // namespace

constinit const DeviceRow mxfp8_device_row = block_rows::row<Microscaled<&mxfp8_format>>();
constinit const DeviceRow mxfp6_device_row = block_rows::row<Microscaled<&mxfp6_format>>();
constinit const DeviceRow mxfp4_device_row = block_rows::row<Microscaled<&mxfp4_format>>();
constinit const DeviceRow minifloat_device_row = block_rows::row<Microscaled<&minifloat_format>>();
constinit const DeviceRow nvfp4_device_row = block_rows::row<NvFp4>();

}  // namespace mq::kernels
