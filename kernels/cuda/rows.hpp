// The rows of the codecs that have kernels for GPUs: those with `gpu` in registry.def.
#pragma once

#include <array>

#include "kernels/device.hpp"

namespace mq::kernels {

// Indexed by compute element: f32, f64. `measure` stays empty if the codec measures nothing. serves: null, or
// whether there are kernels for these parameters.
struct DeviceRow {
  std::array<DeviceOps, 2> ops;
  std::array<DeviceMeasureOps, 2> measure{};
  bool (*serves)(const Params&) = nullptr;
};

#define MQ_ROW_gpu(name) extern constinit const DeviceRow name##_device_row;
#define MQ_ROW_host(name)
#define MQ_CODEC(name, Type, family, where) MQ_ROW_##where(name)
#include "kernels/registry.def"
#undef MQ_CODEC
#undef MQ_ROW_host
#undef MQ_ROW_gpu

// onebit with one launch for each pass over a block. It reads everything twice; the benchmark uses it for
// comparison. It is in no table.
extern constinit const DeviceRow onebit_steps_device_row;

}  // namespace mq::kernels
