// The device row of zerorun (device.cuh).

#include "kernels/sparse/row.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

struct ZeroRunSetting {
  static constexpr bool kKeeps = false;  // it has no candidates
  static constexpr std::uint32_t kThreads = kSparseThreads;
  static constexpr std::array<EncodeNames, 1> kEncode{MQ_SPARSE_ENCODE_NAMES(zerorun)};
  static constexpr DecodeNames kDecode = MQ_DECODE_NAMES(zeros);
  static constexpr std::size_t kZeroBlock = 16384, kStage = 4096;
  template <class T>
  static Setting of(const Params&) {
    return {kZeroBlock, kStage, 0, 0, 0, 0};
  }
  static std::size_t share(std::size_t, const Params&) { return 0; }
  static std::size_t most(std::size_t, const Params&) { return 0; }
};

}  // namespace
}  // namespace cuda

constinit const DeviceRow zerorun_device_row{cuda::kTypes<cuda::ZeroRunSetting>};

}  // namespace mq::kernels
