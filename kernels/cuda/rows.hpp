// The table of device rows (rows.cpp), and the rows that the codecs' files in this folder define.
#pragma once

#include <array>
#include <string_view>

#include "kernels/device.hpp"

namespace mq::kernels {

// Indexed by compute element: f32, f64. `propose` stays empty if the codec has no measured parameter.
struct DeviceRow {
  std::string_view codec;
  std::array<DeviceOps, 2> ops;
  std::array<DeviceProposeOps, 2> propose{};
};

extern constinit const DeviceRow raw_device_row, bf16_device_row, f16_device_row, onebit_device_row,
    threshold_device_row, adaptive_device_row, topk_device_row, zerorun_device_row;
// onebit with one launch for each pass over a block. It reads everything twice; the benchmark uses it for
// comparison. It is in no table.
extern constinit const DeviceRow onebit_steps_device_row;

}  // namespace mq::kernels
