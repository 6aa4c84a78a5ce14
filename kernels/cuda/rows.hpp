// The table of device rows (rows.cpp): what a codec's files in this folder define and the table names.
#pragma once

#include <array>
#include <string_view>

#include "kernels/device.hpp"

namespace mq::kernels {

// By compute element: f32, f64. A codec without a parameter that is measured leaves propose empty.
struct DeviceRow {
  std::string_view codec;
  std::array<DeviceOps, 2> ops;
  std::array<DeviceProposeOps, 2> propose{};
};

extern constinit const DeviceRow raw_device_row, bf16_device_row, f16_device_row, onebit_device_row,
    threshold_device_row, adaptive_device_row, topk_device_row, zerorun_device_row;
// onebit with the passes over a block as launches of their own, which reads everything twice: the rung below
// in the benchmark's ladder. In no table.
extern constinit const DeviceRow onebit_steps_device_row;

}  // namespace mq::kernels
