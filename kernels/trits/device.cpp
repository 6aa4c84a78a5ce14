// The device row of terngrad (device.cuh).

#include "kernels/trits/trits.hpp"

#include "kernels/cuda/block_row.hpp"

namespace mq::kernels {
namespace {

struct TritRow {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(trits);
  template <class T>
  static trits::Settings settings(const Params& params) {
    return trits::terngrad_settings(params);
  }
  template <class T>
  static std::size_t block(const trits::Settings& settings) {
    return settings.block;
  }
  template <class T>
  static std::size_t wire_bytes(const trits::Settings& settings, std::size_t n) {
    return settings.wire_bytes<T>(n);
  }
};

}  // namespace

constinit const DeviceRow terngrad_device_row = block_rows::row<TritRow>();

}  // namespace mq::kernels
