// The device rows of int8, int4 and qsgd (integers.cuh).

#include "kernels/integers.hpp"

#include "kernels/cuda/blocks.hpp"
#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace {

using integers::Settings;
using SettingsOf = Settings (*)(const Params&);

template <class T>
block_rows::Cut cut_of(const Settings& settings, std::size_t n) {
  return {n, static_cast<std::uint32_t>(settings.block),
          static_cast<std::uint32_t>(settings.block_bytes<T>(settings.block))};
}

template <class T, SettingsOf kSettings>
void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
  const Settings settings = kSettings(e.args.params);
  block_rows::encode(sizeof(T) == 8 ? "integers_f64_encode" : "integers_f32_encode", e,
                     cut_of<T>(settings, e.args.n), settings.wire_bytes<T>(e.args.n), settings, launch);
}

template <class T, SettingsOf kSettings>
void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
  const Settings settings = kSettings(d.args.params);
  block_rows::decode(sizeof(T) == 8 ? "integers_f64_decode" : "integers_f32_decode", d,
                     cut_of<T>(settings, d.args.n), settings.wire_bytes<T>(d.args.n), settings, launch);
}

// The norm is a sum of doubles in the order of the elements, which a warp does not have.
template <SettingsOf kSettings>
bool serves(const Params& params) noexcept {
  return kSettings(params).reach != integers::Reach::norm;
}

template <SettingsOf kSettings>
constexpr DeviceRow row(std::string_view codec) {
  return {codec,
          {DeviceOps{&block_rows::scratch_bytes, &encode<float, kSettings>, &decode<float, kSettings>},
           DeviceOps{&block_rows::scratch_bytes, &encode<double, kSettings>, &decode<double, kSettings>}},
          {},
          &serves<kSettings>};
}

}  // namespace

constinit const DeviceRow int8_device_row = row<&integers::fixed_settings<8>>("int8");
constinit const DeviceRow int4_device_row = row<&integers::fixed_settings<4>>("int4");
constinit const DeviceRow qsgd_device_row = row<&integers::qsgd_settings>("qsgd");

}  // namespace mq::kernels
