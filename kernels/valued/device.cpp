// The device row of topk (device.cuh).

#include "kernels/sparse/row.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

struct TopKSetting {
  static constexpr bool kKeeps = true;
  static constexpr std::uint32_t kThreads = kSelectThreads;
  static constexpr std::array<EncodeNames, 1> kEncode{MQ_SPARSE_ENCODE_NAMES(topk)};
  static constexpr DecodeNames kDecode = MQ_DECODE_NAMES(valued);
  template <class T>
  static Setting of(const Params& params) {
    const TopKParams p(params);
    const std::size_t listed = (p.block + 3) / 4, gaps = listed + p.block / kSkip<false> + 1;
    const std::size_t front = sizeof(ValuedHeader) + sizeof(T) + std::max(gaps, 2 * bitmap_bytes(p.block));
    return {p.block, std::max(kBinBytes, front + 16),      static_cast<std::uint32_t>(p.select),
            0,       static_cast<std::uint32_t>(p.format), p.k};
  }
  static std::size_t share(std::size_t n, const Params& params) { return TopKParams(params).share(n); }
  static std::size_t most(std::size_t n, const Params& params) { return TopKParams(params).most(n); }
};

}  // namespace
}  // namespace cuda

constinit const DeviceRow topk_device_row{cuda::kTypes<cuda::TopKSetting>};

}  // namespace mq::kernels
