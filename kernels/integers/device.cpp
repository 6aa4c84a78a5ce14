// The device rows of int8, int4 and qsgd (device.cuh).

#include "kernels/integers/integers.hpp"

#include "kernels/cuda/block_row.hpp"

namespace mq::kernels {
namespace {

using SettingsOf = integers::Settings (*)(const Params&);

template <SettingsOf kSettings>
struct Integers {
  static constexpr auto kKernels = MQ_BLOCK_KERNEL_NAMES(integers);
  template <class T>
  static integers::Settings settings(const Params& params) {
    return kSettings(params);
  }
  template <class T>
  static std::size_t block(const integers::Settings& settings) {
    return settings.block;
  }
  template <class T>
  static std::size_t wire_bytes(const integers::Settings& settings, std::size_t n) {
    return settings.wire_bytes<T>(n);
  }
  static bool serves(const Params& params) { return !kSettings(params).entropy; }
};

}  // namespace

constinit const DeviceRow int8_device_row = block_rows::row<Integers<&integers::fixed_settings<8>>>();
constinit const DeviceRow int4_device_row = block_rows::row<Integers<&integers::fixed_settings<4>>>();
constinit const DeviceRow qsgd_device_row = block_rows::row<Integers<&integers::qsgd_settings>>();

}  // namespace mq::kernels
