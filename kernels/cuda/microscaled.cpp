// The device rows of mxfp8, mxfp6, mxfp4 and minifloat (microscaled.cuh).

#include "kernels/cuda/blocks.hpp"
#include "kernels/cuda/rows.hpp"
#include "kernels/small_floats.hpp"

namespace mq::kernels {
namespace {

using FormatOf = SmallFloat (*)(const Params&);

template <class T>
block_rows::Cut cut_of(const SmallFloat& format, std::size_t n) {
  constexpr std::size_t kBlock = Microscale<T>::kBlock;
  return {n, kBlock, static_cast<std::uint32_t>(Microscale<T>::wire_bytes(format, kBlock))};
}

template <class T, FormatOf kFormat>
void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
  const SmallFloat format = kFormat(e.args.params);
  block_rows::encode(sizeof(T) == 8 ? "microscaled_f64_encode" : "microscaled_f32_encode", e,
                     cut_of<T>(format, e.args.n), Microscale<T>::wire_bytes(format, e.args.n), format,
                     launch);
}

template <class T, FormatOf kFormat>
void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
  const SmallFloat format = kFormat(d.args.params);
  block_rows::decode(sizeof(T) == 8 ? "microscaled_f64_decode" : "microscaled_f32_decode", d,
                     cut_of<T>(format, d.args.n), Microscale<T>::wire_bytes(format, d.args.n), format,
                     launch);
}

template <FormatOf kFormat>
constexpr DeviceRow row(std::string_view codec) {
  return {codec,
          {DeviceOps{&block_rows::scratch_bytes, &encode<float, kFormat>, &decode<float, kFormat>},
           DeviceOps{&block_rows::scratch_bytes, &encode<double, kFormat>, &decode<double, kFormat>}}};
}

}  // namespace

constinit const DeviceRow mxfp8_device_row = row<&mxfp8_format>("mxfp8");
constinit const DeviceRow mxfp6_device_row = row<&mxfp6_format>("mxfp6");
constinit const DeviceRow mxfp4_device_row = row<&mxfp4_format>("mxfp4");
constinit const DeviceRow minifloat_device_row = row<&minifloat_format>("minifloat");

}  // namespace mq::kernels
