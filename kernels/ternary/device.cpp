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
  static constexpr std::array<EncodeNames, 1> kEncode{MQ_SPARSE_ENCODE_NAMES(threshold)};
  static constexpr DecodeNames kDecode = MQ_DECODE_NAMES(ternary);
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
  static constexpr std::array<EncodeNames, 2> kEncode{MQ_SPARSE_ENCODE_NAMES(adaptive),
                                                      MQ_SPARSE_ENCODE_NAMES(adaptive_rare)};
  static constexpr DecodeNames kDecode = MQ_DECODE_NAMES(ternary);
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
  static void measure(const void* x, std::size_t n, const Params& params, Measured* measured,
                      std::byte* scratch, const DeviceShape& shape, const Launcher& launch) noexcept {
    constexpr NamesByType kCount = MQ_NAMES_BY_TYPE(threshold_count, ),
                          kTake = MQ_NAMES_BY_TYPE(threshold_take, );
    MeasureArgs a{static_cast<const std::byte*>(x),
                  n,
                  0,
                  reinterpret_cast<MeasureState*>(scratch),
                  measured->data(),
                  0};
    a.k = ThresholdParams::rank(params, n);
    constexpr std::size_t kEach = std::size_t{512} * 16;  // least number of elements per thread block
    const std::size_t grid = std::clamp<std::size_t>((n + kEach - 1) / kEach, 1,
                                                     std::size_t{4} * std::max(shape.multiprocessors, 1u));
    launch(names::threshold_begin, 1, 512, 0, a);
    for (a.level = 0; a.level < 2; ++a.level) {
      launch(name_for<T>(kCount), grid, 512, 4 * kMeasureBins, a);
      launch(name_for<T>(kTake), 1, 512, 0, a);
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
