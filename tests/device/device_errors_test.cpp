// Every function of the driver fails at every call of a scenario that uses the whole table: each time there
// is a Status, the program's context and capture mode are as before, and nothing is left behind.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/device/device_scene.hpp"

namespace mq::test {
namespace {

using namespace mq::fake;

class DeviceErrorsTest : public DeviceScene {};

// Objects as far as they could be made; freed in any case.
struct Objects {
  Device* device = nullptr;
  DeviceStream *stream = nullptr, *wrapped = nullptr;
  DeviceEvent *from = nullptr, *to = nullptr;
  void *memory = nullptr, *pinned = nullptr;
};

Status use(Objects& o, const Array<float>& x, CuStream program, CuStream elsewhere) {
  const DeviceApi& api = DeviceScene::api();
  Where w;
  MQ_TRY(api.where(x.data(), w));
  if (w.device == nullptr) return {Code::device_failed, "taken for host memory"};
  o.device = w.device;
  (void)api.capturing(o.device, nullptr);
  MQ_TRY(api.make_stream(o.device, o.stream));
  MQ_TRY(api.wrap_stream(o.device, program, o.wrapped));
  MQ_TRY(api.make_event(o.device, true, o.from));
  MQ_TRY(api.make_event(o.device, true, o.to));
  MQ_TRY(api.allocate(o.device, 1024, o.memory));
  MQ_TRY(api.allocate_pinned(o.device, 1024, o.pinned));
  for (const DeviceSync sync : {DeviceSync::legacy, DeviceSync::perthread, DeviceSync::device})
    MQ_TRY(api.follow(o.stream, sync));
  MQ_TRY(api.follow_stream(o.stream, program));
  MQ_TRY(api.follow_stream(o.stream, elsewhere));
  MQ_TRY(api.record(o.from, o.stream));
  MQ_TRY(api.zero(o.stream, o.memory, 1024));
  MQ_TRY(api.copy(o.stream, o.memory, x.data(), 1024));
  const kernels::Launcher launch = api.launcher(o.stream);
  launch(names::test_reverse, 1, 256, 64 << 10, TestAdd{static_cast<float*>(o.memory), 256, 1});
  MQ_TRY(api.launch_error(o.stream));
  MQ_TRY(api.copy(o.stream, o.pinned, o.memory, 1024));
  MQ_TRY(api.record(o.to, o.stream));
  MQ_TRY(api.wait_event(o.wrapped, o.to));
  bool is_done = false;
  MQ_TRY(api.query(o.to, is_done));
  MQ_TRY(api.lead_stream(o.stream, program));
  MQ_TRY(api.synchronize(o.stream));
  double seconds = 0;
  MQ_TRY(api.elapsed(o.from, o.to, seconds));
  const float got = *static_cast<float*>(o.pinned);
  return got == 2 ? Status{} : Status{Code::extension, "wrong result " + std::to_string(got)};
}

void free_all(const Objects& o) {
  const DeviceApi& api = DeviceScene::api();
  api.free_event(o.from);
  api.free_event(o.to);
  api.free_stream(o.wrapped);
  api.free_stream(o.stream);
  if (o.device == nullptr) return;
  api.free(o.device, o.memory);
  api.free_pinned(o.device, o.pinned);
}

const std::vector<std::string>& functions() {
#define MQ_NAME(function, ...) #function,
  static const std::vector<std::string> names{MQ_CUDA_FUNCTIONS(MQ_NAME) MQ_CUDA_OPTIONAL_FUNCTIONS(MQ_NAME)};
#undef MQ_NAME
  return names;
}

// Failures of these leave what they were to free; that is the driver's.
bool frees(const std::string& function) {
  for (const char* word : {"Destroy", "Free", "Pop", "Exchange", "Push", "GetId"})
    if (function.find(word) != std::string::npos) return true;
  return false;
}

int capture_mode() {
  int mode = 0, ours = 0;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), kSuccess);
  ours = mode;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), kSuccess);
  return ours;
}

// The scenario in the context that is current; a fresh one has no Device yet, so that opening is part of it.
struct Outcome {
  Status status;
  std::vector<long> left;
};
template <class Living>
Outcome run_once(const std::string& function, long nth, CuResult code, bool is_fresh, CuStream elsewhere,
                 const Living& living) {
  CuContext own = nullptr, current = nullptr;
  if (is_fresh) {
    EXPECT_EQ(cuCtxCreate_v2(&own, 0, 0), kSuccess);
  }
  Outcome out;
  const std::vector<long> before = living();
  {
    const Array<float> x(std::vector<float>(256, 1));
    CuStream program = nullptr;
    EXPECT_EQ(cuStreamCreate(&program, kStreamNonBlocking), kSuccess);
    EXPECT_EQ(cuCtxGetCurrent(&own), kSuccess);
    Objects o;
    fake_cuda_forget();
    if (nth > 0) fake_cuda_fail(function.c_str(), nth, code);
    out.status = use(o, x, program, elsewhere);
    const long calls = fake_cuda_calls(function.c_str());
    if (nth == 0) out.left = {calls};
    free_all(o);
    if (nth > 0) fake_cuda_forget();
    EXPECT_EQ(cuCtxGetCurrent(&current), kSuccess);
    EXPECT_EQ(current, own) << function << " " << nth;
    if (function != "cuThreadExchangeStreamCaptureMode") {
      EXPECT_EQ(capture_mode(), 0) << function << " " << nth;
    }
    EXPECT_EQ(cuStreamDestroy_v2(program), kSuccess);
  }
  if (nth > 0) {
    out.left = living();
    for (std::size_t i = 0; i < out.left.size(); ++i) out.left[i] -= before[i];
  }
  if (is_fresh) {
    EXPECT_EQ(cuCtxDestroy_v2(own), kSuccess);
  }
  return out;
}

TEST_F(DeviceErrorsTest, each_call_of_the_driver_may_fail) {
  CuStream elsewhere = nullptr;
  use_gpu(1);
  ASSERT_EQ(cuStreamCreate(&elsewhere, kStreamNonBlocking), kSuccess);
  use_gpu(0);
  int failures = 0;
  for (const bool is_fresh : {false, true})
    for (const std::string& function : functions()) {
      const Outcome clean = run_once(function, 0, 0, is_fresh, elsewhere, living);
      ASSERT_TRUE(clean.status.ok()) << clean.status.text();
      // To find and to load one kernel of the image is like the next.
      const bool is_of_image = function == "cuFuncLoad" || function == "cuModuleGetFunction";
      for (long nth = 1; nth <= clean.left[0]; nth += is_of_image ? 25 : 1) {
        const Outcome got = run_once(function, nth, 999, is_fresh, elsewhere, living);
        if (!got.status.ok()) {
          ++failures;
          EXPECT_EQ(got.status.code(), Code::device_failed) << function << " " << nth << got.status.text();
          EXPECT_FALSE(got.status.text().empty());
        }
        if (!frees(function)) {
          EXPECT_EQ(got.left, std::vector<long>(4, 0)) << function << " " << nth;
        }
        if (function == "cuThreadExchangeStreamCaptureMode") {
          int mode = 0;
          ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), kSuccess);
        }
      }
    }
  EXPECT_GT(failures, 100);
  ASSERT_EQ(cuStreamDestroy_v2(elsewhere), kSuccess);
  for (const int gpu : {0, 1})
    ASSERT_EQ(cuDevicePrimaryCtxReset_v2(gpu), kSuccess);  // with what it would not free
  use_gpu(0);
}

}  // namespace
}  // namespace mq::test
