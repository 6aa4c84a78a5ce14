// The device row of zerorun (device.cuh).

#include "kernels/sparse/row.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

struct ZeroRunSetting {
  static constexpr bool kKeeps = false;  // it has no candidates
  static constexpr std::uint32_t kThreads = kSparseThreads;
  static constexpr const char* kEncode[1][2][2]{{{"zerorun_encode_f32_far", "zerorun_encode_f32_near"},
                                                 {"zerorun_encode_f64_far", "zerorun_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"zeros_survey_f32", "zeros_walk_f32", "zeros_list_f32"},
                                        {"zeros_survey_f64", "zeros_walk_f64", "zeros_list_f64"}};
  static constexpr const char* kDecode[2]{"zeros_decode_f32", "zeros_decode_f64"};
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
