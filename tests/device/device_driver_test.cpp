// What the table of libmpi_quant_cuda.so asks of the driver: how often it enters a context, which image of
// kernels it loads, and when. On the fake driver.

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/device/device_scene.hpp"

namespace mq::test {
namespace {

using namespace mq::fake;

class DeviceDriver : public DeviceScene {};

// A driver takes five calls to enter and leave a context.
TEST_F(DeviceDriver, a_device_that_is_held_is_entered_once) {
  const Array<float> x(std::vector<float>(256, 1));
  OurStream s(*this, x.data());
  DeviceEvent* event = nullptr;
  ASSERT_TRUE(api().make_event(s.device(), false, event).ok());
  const auto work = [&] {
    bool done = false;
    api().launcher(s.get())(names::test_add, 1, 256, 0, TestAdd{x.data(), 256, 1});
    EXPECT_TRUE(api().record(event, s.get()).ok());
    EXPECT_TRUE(api().query(event, done).ok());
    EXPECT_TRUE(api().launch_error(s.get()).ok());
  };
  fake::CuContext before = nullptr, after = nullptr;
  ASSERT_EQ(fake::cuCtxGetCurrent(&before), fake::kSuccess);
  work();
  fake_cuda_forget();
  work();
  EXPECT_EQ(fake_cuda_calls("cuCtxPushCurrent_v2"), 3);
  EXPECT_EQ(fake_cuda_calls(nullptr), 3 + 3 * 5);
  fake_cuda_forget();
  {
    const HoldDevice hold(api(), s.device());
    EXPECT_EQ(fake_cuda_calls(nullptr), 0) << "it is entered when it is needed";
    work();
  }
  EXPECT_EQ(fake_cuda_calls("cuCtxPushCurrent_v2"), 1);
  EXPECT_EQ(fake_cuda_calls(nullptr), 3 + 5);
  ASSERT_EQ(fake::cuCtxGetCurrent(&after), fake::kSuccess);
  EXPECT_EQ(before, after);
  int mode = fake::kCaptureModeRelaxed;  // exchanged: a thread has the mode "global" at first
  ASSERT_EQ(fake::cuThreadExchangeStreamCaptureMode(&mode), fake::kSuccess);
  EXPECT_EQ(mode, 0);
  ASSERT_EQ(fake::cuThreadExchangeStreamCaptureMode(&mode), fake::kSuccess);
  // Another device can be used meanwhile, and a failing entry leaves nothing behind.
  {
    const HoldDevice hold(api(), s.device());
    fake_cuda_fail("cuCtxPushCurrent_v2", 1, 999);
    EXPECT_FALSE(api().record(event, s.get()).ok());
    EXPECT_TRUE(api().record(event, s.get()).ok());
  }
  ASSERT_EQ(fake::cuCtxGetCurrent(&after), fake::kSuccess);
  EXPECT_EQ(before, after);
  api().free_event(event);
}

// A driver that loads kernels at their first launch may then wait for the work of the program.
TEST_F(DeviceDriver, kernels_are_loaded_with_their_image) {
  const Array<float> x(std::vector<float>(256, 1));
  OurStream s(*this, x.data());
  for (const kernels::Kernel kernel : {names::test_add, names::test_reverse})
    api().launcher(s.get())(kernel, 1, 256, 0, TestAdd{x.data(), 256, 1});
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(fake_cuda_calls("lazy load"), 0);
}

// Kernels with different wishes do not share a multiprocessor.
TEST_F(DeviceDriver, all_kernels_wish_for_the_same_shared_memory) {
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  use_gpu(1);
  {
    const Array<float> x(std::vector<float>(256, 1));
    OurStream s(*this, x.data());
    fake_cuda_forget();
    for (int i = 0; i < 2; ++i)
      for (const kernels::Kernel kernel : {names::test_add, names::test_reverse})
        api().launcher(s.get())(kernel, 1, 256, 0, TestAdd{x.data(), 256, 1});
    EXPECT_TRUE(api().synchronize(s.get()).ok());
    EXPECT_EQ(fake_cuda_calls("carveout 100"), 2) << "once a kernel";
    EXPECT_EQ(fake_cuda_calls("other carveout"), 0);
  }
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  use_gpu(0);
}

TEST_F(DeviceDriver, without_kernels_for_the_gpu_the_rest_works) {
  use_gpu(1);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  use_gpu(1);
  fake_cuda_fail("cuModuleLoadDataEx", 0, 200);
  const Array<float> x(std::vector<float>(10, 1));
  OurStream s(*this, x.data());
  fake_cuda_forget();
  ASSERT_NE(api().no_kernels(device_of(s)), nullptr);
  EXPECT_NE(std::string(api().no_kernels(device_of(s))).find("INVALID_IMAGE"), std::string::npos);
  EXPECT_TRUE(api().zero(s.get(), x.data(), 4).ok());
  api().launcher(s.get())(names::test_add, 1, 32, 0, TestAdd{x.data(), 10, 1});
  EXPECT_EQ(api().launch_error(s.get()).text(), api().no_kernels(device_of(s)));
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(x.get()[0], 0);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  use_gpu(0);
}

// The driver is older than the compiler, or the GPU newer: 200 CUDA_ERROR_INVALID_IMAGE, 209
// _NO_BINARY_FOR_GPU.
TEST_F(DeviceDriver, a_driver_that_refuses_the_binaries_compiles_their_ptx) {
  for (const int error : {200, 209}) {
    ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
    use_gpu(1);
    fake_cuda_fail("cuModuleLoadDataEx", 1, error);
    const Array<float> x(std::vector<float>(10, 1));
    OurStream s(*this, x.data());
    EXPECT_EQ(api().no_kernels(device_of(s)), nullptr);
    EXPECT_EQ(fake_cuda_calls("cuModuleLoadDataEx"), 2);
    EXPECT_GE(fake_cuda_calls("ptx"), 1);
    api().launcher(s.get())(names::test_add, 1, 32, 0, TestAdd{x.data(), 10, 1});
    EXPECT_TRUE(api().synchronize(s.get()).ok());
    EXPECT_EQ(x.get()[0], 2);
    fake_cuda_forget();
  }
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  use_gpu(0);
}

TEST_F(DeviceDriver, the_image_is_loaded_once_there_is_memory) {
  for (const char* const function : {"cuModuleLoadDataEx", "cuModuleGetFunction"}) {
    ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
    use_gpu(1);
    const Array<float> x(std::vector<float>(10, 1));
    fake_cuda_fail(function, 0, kOutOfMemory);
    OurStream s(*this, x.data());
    for (int i = 0; i < 2; ++i) {
      ASSERT_NE(api().no_kernels(device_of(s)), nullptr);
      EXPECT_NE(std::string(api().no_kernels(device_of(s))).find(function), std::string::npos);
    }
    fake_cuda_forget();
    EXPECT_EQ(api().no_kernels(device_of(s)), nullptr);
    api().launcher(s.get())(names::test_add, 1, 32, 0, TestAdd{x.data(), 10, 1});
    EXPECT_TRUE(api().launch_error(s.get()).ok());
    EXPECT_TRUE(api().synchronize(s.get()).ok());
    EXPECT_EQ(x.get()[0], 2);
  }
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  use_gpu(0);
}

}  // namespace
}  // namespace mq::test
