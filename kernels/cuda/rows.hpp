// The table of device rows (rows.cpp), and the rows that the codecs' files in this folder define.
#pragma once

#include <array>
#include <string_view>

#include "kernels/device.hpp"

namespace mq::kernels {

// Indexed by compute element: f32, f64. `measure` stays empty if the codec measures nothing. serves: whether the row has
// kernels for these parameters; null: for all.
struct DeviceRow {
  std::string_view codec;
  std::array<DeviceOps, 2> ops;
  std::array<DeviceMeasureOps, 2> measure{};
  bool (*serves)(const Params&) noexcept = nullptr;
};

extern constinit const DeviceRow raw_device_row, bf16_device_row, f16_device_row, int8_device_row,
    int4_device_row, qsgd_device_row, mxfp8_device_row, mxfp6_device_row, mxfp4_device_row,
    minifloat_device_row, nvfp4_device_row, natural_device_row, rangefloat_device_row, onebit_device_row,
    bound_device_row, threshold_device_row, adaptive_device_row, topk_device_row, zerorun_device_row,
    terngrad_device_row, adacomp_device_row, meprop_device_row, fft_device_row;
// onebit with one launch for each pass over a block. It reads everything twice; the benchmark uses it for
// comparison. It is in no table.
extern constinit const DeviceRow onebit_steps_device_row;

}  // namespace mq::kernels
