// The device rows, one line per codec.

#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace {

constexpr const DeviceRow* kRows[]{
    &raw_device_row,       &bf16_device_row,   &f16_device_row,     &int8_device_row,
    &int4_device_row,      &nvfp4_device_row,  &natural_device_row, &rangefloat_device_row,
    &qsgd_device_row,      &mxfp8_device_row,  &mxfp6_device_row,   &mxfp4_device_row,
    &minifloat_device_row, &onebit_device_row, &bound_device_row,   &threshold_device_row,
    &adaptive_device_row,  &topk_device_row,   &zerorun_device_row, &terngrad_device_row,
    &adacomp_device_row,   &meprop_device_row, &fft_device_row,
};

const DeviceRow* row_of(const Codec& codec) noexcept {
  for (const DeviceRow* const row : kRows)
    if (row->codec == codec.name) return row;
  return nullptr;
}

std::size_t position(Element element) { return compute_element(element) == Element::f64 ? 1 : 0; }

}  // namespace

const DeviceOps* device_ops(const Codec& codec, Element element, const Params& params) noexcept {
  const DeviceRow* const row = row_of(codec);
  if (row == nullptr || (row->serves != nullptr && !row->serves(params))) return nullptr;
  return &row->ops[position(element)];
}

const DeviceMeasureOps* device_measure(const Codec& codec, Element element) noexcept {
  const DeviceRow* const row = row_of(codec);
  if (row == nullptr || row->measure[position(element)].measure == nullptr) return nullptr;
  return &row->measure[position(element)];
}

}  // namespace mq::kernels
