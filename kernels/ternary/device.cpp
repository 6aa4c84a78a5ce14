// The device rows of threshold and adaptive (device.cuh).

#include "kernels/sparse/row.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

template <class T>
std::size_t ternary_pool(std::size_t block) {
  return sizeof(TernaryHeader<T>) + sizeof(T) + dense_bytes(block) + 16;
}

struct ThresholdSetting {
  static constexpr bool kKeeps = true;
  static constexpr std::uint32_t kThreads = kSelectThreads;
  static constexpr const char* kEncode[1][2][2]{{{"threshold_encode_f32_far", "threshold_encode_f32_near"},
                                                 {"threshold_encode_f64_far", "threshold_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"ternary_survey_f32", "ternary_walk_f32", "ternary_list_f32"},
                                        {"ternary_survey_f64", "ternary_walk_f64", "ternary_list_f64"}};
  static constexpr const char* kDecode[2]{"ternary_decode_f32", "ternary_decode_f64"};
  template <class T>
  static Setting of(const Params& params) {
    const ThresholdParams p(params);
    const auto tau = static_cast<double>(p.value<T>());
    return {p.block, ternary_pool<T>(p.block), 0, 0, static_cast<std::uint32_t>(p.format), tau};
  }
  static std::size_t share(std::size_t, const Params&) { return 0; }
  static std::size_t most(std::size_t, const Params&) { return 0; }
};

struct AdaptiveSetting {
  static constexpr bool kKeeps = true;
  static constexpr std::uint32_t kThreads = kSelectThreads;
  static constexpr const char* kEncode[2][2][2]{
      {{"adaptive_encode_f32_far", "adaptive_encode_f32_near"},
       {"adaptive_encode_f64_far", "adaptive_encode_f64_near"}},
      {{"adaptive_rare_encode_f32_far", "adaptive_rare_encode_f32_near"},
       {"adaptive_rare_encode_f64_far", "adaptive_rare_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"ternary_survey_f32", "ternary_walk_f32", "ternary_list_f32"},
                                        {"ternary_survey_f64", "ternary_walk_f64", "ternary_list_f64"}};
  static constexpr const char* kDecode[2]{"ternary_decode_f32", "ternary_decode_f64"};
  template <class T>
  static Setting of(const Params& params) {
    const AdaptiveParams p(params);
    Setting setting{
        p.block,    std::max(kBinBytes, ternary_pool<T>(p.block)), static_cast<std::uint32_t>(p.search),
        p.separate, static_cast<std::uint32_t>(p.format),          p.pi};
    setting.kernel = p.search != Search::exact || p.separate;
    return setting;
  }
  static std::size_t share(std::size_t n, const Params& params) {
    return adaptive_share(n, AdaptiveParams(params).pi);
  }
  static std::size_t most(std::size_t, const Params&) { return 0; }
};

template <class T>
struct Measure {
  static std::size_t scratch_bytes(std::size_t, const Params&) noexcept { return sizeof(MeasureState); }
  static void measure(const void* x, std::size_t n, const Params& params, Facts* facts, std::byte* scratch,
                      const DeviceShape& shape, const Launcher& launch) noexcept {
    constexpr bool kDouble = sizeof(T) == 8;
    MeasureArgs a{
        static_cast<const std::byte*>(x), n, 0, reinterpret_cast<MeasureState*>(scratch), facts->data(), 0};
    a.k = ThresholdParams::rank(params, n);
    constexpr std::size_t kEach = std::size_t{512} * 16;  // least number of elements per thread block
    const std::size_t grid = std::clamp<std::size_t>((n + kEach - 1) / kEach, 1,
                                                     std::size_t{4} * std::max(shape.multiprocessors, 1u));
    launch("threshold_begin", 1, 512, 0, a);
    for (a.level = 0; a.level < 2; ++a.level) {
      launch(kDouble ? "threshold_count_f64" : "threshold_count_f32", grid, 512, 4 * kMeasureBins, a);
      launch(kDouble ? "threshold_take_f64" : "threshold_take_f32", 1, 512, 0, a);
    }
  }
  static constexpr DeviceMeasureOps kOps{&scratch_bytes, &measure};
};

}  // namespace
}  // namespace cuda

constinit const DeviceRow threshold_device_row{cuda::kTypes<cuda::ThresholdSetting>,
                                               {cuda::Measure<float>::kOps, cuda::Measure<double>::kOps}};
constinit const DeviceRow adaptive_device_row{cuda::kTypes<cuda::AdaptiveSetting>};

}  // namespace mq::kernels
