// The table of device rows, made from registry.def.

#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace {

struct Place {
  std::string_view codec;
  const DeviceRow* row;  // null: vectors are encoded on the host
};
#define MQ_ROW_gpu(name) &name##_device_row
#define MQ_ROW_host(name) nullptr
#define MQ_CODEC(name, Type, family, where) Place{#name, MQ_ROW_##where(name)},
constexpr std::array kPlaces{
#include "kernels/registry.def"
};
#undef MQ_CODEC
#undef MQ_ROW_host
#undef MQ_ROW_gpu

const DeviceRow* row_of(const Codec& codec) noexcept {
  for (const Place& place : kPlaces)
    if (place.codec == codec.name) return place.row;
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
