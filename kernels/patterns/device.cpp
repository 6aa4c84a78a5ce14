// The device rows of natural and rangefloat (device.cuh).

#include "kernels/cuda/block_row.hpp"
#include "kernels/patterns/natural_wire.hpp"
#include "kernels/patterns/range.hpp"

namespace mq::kernels {
namespace {

struct Natural : block_rows::WithoutSettings<NaturalWire> {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(natural);
};

struct RangeFloats {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(range_float);
  template <class T>
  static FloatRange<T> settings(const Params& params) {
    return FloatRange<T>(params);
  }
  template <class T>
  static std::size_t block(const FloatRange<T>&) {
    return FloatRange<T>::kBlock;
  }
  template <class T>
  static std::size_t wire_bytes(const FloatRange<T>& range, std::size_t n) {
    return range.wire_bytes(n);
  }
};

}  // namespace

constinit const DeviceRow natural_device_row = block_rows::row<Natural>();
constinit const DeviceRow rangefloat_device_row = block_rows::row<RangeFloats>();

}  // namespace mq::kernels
