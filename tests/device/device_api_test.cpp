// The table of libmpi_quant_cuda.so on the fake driver: what waits for what, kernels, captures, contexts that
// go away. Where pointers point: device_where_test.cpp. Errors of every function of the driver:
// device_errors_test.cpp.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/device/device_scene.hpp"

namespace mq::test {
namespace {

using namespace mq::fake;

class DeviceApiTest : public DeviceScene {};

TEST_F(DeviceApiTest, says_what_the_gpu_has) {
  const Array<float> x(1);
  Device* const device = expect_device(x.data());
  EXPECT_EQ(api().shape(device)->multiprocessors, 4U);
  EXPECT_EQ(api().shape(device)->shared_bytes, 232448U);
  EXPECT_STREQ(api().name(device), "Fake GPU 0");
  EXPECT_EQ(api().no_kernels(device), nullptr);
}

TEST_F(DeviceApiTest, a_stream_follows_what_the_program_launched) {
  for (const DeviceSync sync : {DeviceSync::legacy, DeviceSync::device, DeviceSync::none}) {
    const Array<std::uint8_t> x(std::vector<std::uint8_t>(100, 1));
    OurStream s(*this, x.data());
    ASSERT_EQ(cuMemsetD8Async(as_address(x.data()), 2, 100, nullptr), kSuccess);
    EXPECT_TRUE(api().follow(s.get(), sync).ok());
    EXPECT_EQ(s.read(x.data(), 100), std::vector<std::uint8_t>(100, sync == DeviceSync::none ? 1 : 2));
  }
}

TEST_F(DeviceApiTest, a_stream_follows_and_leads_streams_of_the_program) {
  CuStream program = nullptr;
  ASSERT_EQ(cuStreamCreate(&program, kStreamNonBlocking), kSuccess);
  const auto per_thread = reinterpret_cast<CuStream>(kStreamPerThread);
  for (const CuStream stream : {program, per_thread}) {
    const Array<std::uint8_t> x(std::vector<std::uint8_t>(100, 1));
    OurStream s(*this, x.data());
    ASSERT_EQ(cuMemsetD8Async(as_address(x.data()), 2, 100, stream), kSuccess);
    EXPECT_EQ(s.read(x.data(), 100)[50], 1);  // not waited for
    if (stream == per_thread)
      EXPECT_TRUE(api().follow(s.get(), DeviceSync::perthread).ok());
    else
      EXPECT_TRUE(api().follow_stream(s.get(), stream).ok());
    EXPECT_EQ(s.read(x.data(), 100)[50], 2);
    EXPECT_TRUE(api().zero(s.get(), x.data(), 100).ok());
    EXPECT_TRUE(api().lead_stream(s.get(), stream).ok());
    ASSERT_EQ(cuStreamSynchronize(stream), kSuccess);
    EXPECT_EQ(x.get()[50], 0);
  }
  ASSERT_EQ(cuStreamDestroy_v2(program), kSuccess);
}

TEST_F(DeviceApiTest, a_stream_of_another_gpu_can_be_followed) {
  const Array<std::uint8_t> x(std::vector<std::uint8_t>(100, 1));
  OurStream s(*this, x.data());
  use_gpu(1);
  CuStream program = nullptr;
  ASSERT_EQ(cuStreamCreate(&program, 0), kSuccess);
  ASSERT_EQ(cuMemsetD8Async(as_address(x.data()), 2, 100, program), kSuccess);
  EXPECT_TRUE(api().follow_stream(s.get(), program).ok());
  EXPECT_EQ(s.read(x.data(), 100)[50], 2);
  EXPECT_TRUE(api().lead_stream(s.get(), program).ok());
  DeviceStream* wrapped = nullptr;
  EXPECT_FALSE(api().wrap_stream(device_of(s), program, wrapped).ok());
  ASSERT_EQ(cuStreamDestroy_v2(program), kSuccess);
  use_gpu(0);
}

TEST_F(DeviceApiTest, a_wrapped_stream_is_the_programs) {
  const Array<std::uint8_t> x(std::vector<std::uint8_t>(100, 1));
  Device* const device = expect_device(x.data());
  CuStream program = nullptr;
  ASSERT_EQ(cuStreamCreate(&program, kStreamNonBlocking), kSuccess);
  DeviceStream* s = nullptr;
  for (CuStream stream : {program, CuStream{}}) {
    ASSERT_TRUE(api().wrap_stream(device, stream, s).ok());
    ASSERT_EQ(cuMemsetD8Async(as_address(x.data()), 2, 100, stream), kSuccess);
    EXPECT_TRUE(api().zero(s, x.data(), 50).ok());
    EXPECT_TRUE(api().synchronize(s).ok());
    api().free_stream(s);
    EXPECT_EQ(x.get()[0], 0);
    EXPECT_EQ(x.get()[99], 2);
  }
  ASSERT_EQ(cuStreamDestroy_v2(program), kSuccess);  // it is there still
}

TEST_F(DeviceApiTest, events_order_streams_and_tell_time) {
  const Array<std::uint8_t> x(std::vector<std::uint8_t>(100, 1));
  OurStream s(*this, x.data()), t(*this, x.data());
  DeviceEvent *from = nullptr, *to = nullptr;
  ASSERT_TRUE(api().make_event(device_of(s), true, from).ok());
  ASSERT_TRUE(api().make_event(device_of(s), true, to).ok());
  EXPECT_TRUE(api().record(from, s.get()).ok());
  EXPECT_TRUE(api().zero(s.get(), x.data(), 100).ok());
  EXPECT_TRUE(api().record(to, s.get()).ok());
  EXPECT_EQ(t.read(x.data(), 1)[0], 1);
  EXPECT_TRUE(api().wait_event(t.get(), to).ok());
  bool done = true;
  EXPECT_TRUE(api().query(to, done).ok());
  EXPECT_FALSE(done);
  double seconds = -1;
  EXPECT_FALSE(api().elapsed(from, to, seconds).ok());
  EXPECT_EQ(t.read(x.data(), 1)[0], 0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(api().query(to, done).ok());
  EXPECT_TRUE(done);
  EXPECT_TRUE(api().elapsed(from, to, seconds).ok());
  EXPECT_GE(seconds, 0);
  EXPECT_LT(seconds, 10);
  api().free_event(from);
  api().free_event(to);
  api().free_event(nullptr);
}

TEST_F(DeviceApiTest, memory_is_aligned_and_copied_between_all_kinds) {
  const Array<float> x(std::vector<float>(1000, 3));
  OurStream s(*this, x.data());
  void *device = nullptr, *pinned = nullptr, *none = nullptr;
  ASSERT_TRUE(api().allocate(device_of(s), 4000, device).ok());
  ASSERT_TRUE(api().allocate_pinned(device_of(s), 4000, pinned).ok());
  ASSERT_TRUE(api().allocate(device_of(s), 0, none).ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 256, 0U);
  EXPECT_EQ(expect_device(device), device_of(s));
  expect_host(pinned);
  EXPECT_TRUE(api().zero(s.get(), device, 4000).ok());
  EXPECT_TRUE(api().copy(s.get(), device, x.data(), 2000).ok());
  EXPECT_TRUE(api().copy(s.get(), pinned, device, 4000).ok());
  EXPECT_TRUE(api().copy(s.get(), nullptr, nullptr, 0).ok());
  EXPECT_TRUE(api().zero(s.get(), nullptr, 0).ok());
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(static_cast<float*>(pinned)[499], 3);
  EXPECT_EQ(static_cast<float*>(pinned)[500], 0);
  EXPECT_FALSE(api().copy(s.get(), device, x.data(), 5000).ok());
  for (void* p : {device, none, static_cast<void*>(nullptr)}) api().free(device_of(s), p);
  api().free_pinned(device_of(s), pinned);
  api().free_pinned(device_of(s), nullptr);
}

TEST_F(DeviceApiTest, kernels_run_in_order_and_with_the_shared_memory_they_ask_for) {
  const Array<float> x(std::vector<float>{std::vector<float>(1000, 1)});
  OurStream s(*this, x.data());
  const kernels::Launcher launch = api().launcher(s.get());
  launch(names::test_add, 4, 256, 0, TestAdd{x.data(), 1000, 2});
  launch(names::test_add, 0, 256, 0, TestAdd{x.data(), 1000, 2});  // nothing
  launch(names::test_reverse, 3, 256, 100 << 10, TestAdd{x.data(), 0, 1});
  EXPECT_TRUE(api().launch_error(s.get()).ok());
  EXPECT_EQ(fake_cuda_ran("test_add"), 0);
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(fake_cuda_ran(nullptr), 2);
  EXPECT_EQ(x.get()[0], 4);
  EXPECT_EQ(x.get()[999], 3);
}

// A grid that runs several times, each time with arguments of its own, is one call of the driver.
TEST_F(DeviceApiTest, runs_of_a_launch_have_arguments_of_their_own) {
  const Array<float> x(std::vector<float>(3 * 256, 1));
  OurStream s(*this, x.data());
  const std::array<TestAdd, 3> args{
      TestAdd{x.data(), 256, 1}, {x.data() + 256, 256, 2}, {x.data() + 512, 256, 3}};
  const kernels::Launcher launcher = api().launcher(s.get());
  fake_cuda_forget();
  launcher.launch(launcher.context, {"test_add", 1, 256, 0, args.data(), sizeof(TestAdd), 3});
  EXPECT_TRUE(api().launch_error(s.get()).ok());
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(fake_cuda_calls("cuLaunchKernel"), 1);
  for (const std::size_t i : {0, 256, 512}) EXPECT_EQ(x.get()[i], 2 + static_cast<float>(i / 256));
}

TEST_F(DeviceApiTest, the_first_error_of_launches_is_kept_and_nothing_follows_it) {
  const Array<float> x(std::vector<float>(256, 1));
  OurStream s(*this, x.data());
  const kernels::Launcher launch = api().launcher(s.get());
  const TestAdd args{x.data(), 256, 2};
  launch(names::test_add, 1, 256, 0, args);
  launch(kernels::Kernel{"no_such_kernel"}, 1, 256, 0, args);
  launch(names::test_reverse, 1, 256, 1 << 20, args);
  launch(names::test_add, 1, 256, 0, args);
  const Status status = api().launch_error(s.get());
  EXPECT_EQ(status.code(), Code::device_failed);
  EXPECT_NE(status.text().find("no_such_kernel"), std::string::npos) << status.text();
  EXPECT_TRUE(api().launch_error(s.get()).ok());
  launch(names::test_reverse, 1, 256, 1 << 20, args);
  EXPECT_NE(api().launch_error(s.get()).text().find("GPU 0: cuFuncSetAttribute"), std::string::npos);
  launch(names::test_add, 1, 256, 0, args);
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(x.get()[0], 5);
}

TEST_F(DeviceApiTest, a_kernel_that_fails_later_is_an_error_of_the_wait) {
  const Array<float> x(std::vector<float>(256, 1));
  OurStream s(*this, x.data());
  fake_cuda_fail("kernel", 1, 719);
  api().launcher(s.get())(names::test_add, 1, 256, 0, TestAdd{x.data(), 256, 2});
  EXPECT_TRUE(api().launch_error(s.get()).ok());
  EXPECT_EQ(api().synchronize(s.get()).code(), Code::device_failed);
  Where w;
  EXPECT_FALSE(api().where(x.data(), w).ok());  // the error stays, as a GPU's does
  fake_cuda_forget();
}

TEST_F(DeviceApiTest, kernels_cannot_use_the_hosts_memory) {
  const Array<float> x(10);
  std::vector<float> heap(256, 1);
  OurStream s(*this, x.data());
  fake_cuda_strict(true);
  api().launcher(s.get())(names::test_add, 1, 256, 0, TestAdd{heap.data(), 256, 2});
  EXPECT_FALSE(api().synchronize(s.get()).ok());
  EXPECT_EQ(heap[0], 1);
  fake_cuda_strict(false);
  fake_cuda_forget();
}

TEST_F(DeviceApiTest, a_reset_gpu_is_opened_again_and_old_objects_are_refused) {
  use_gpu(1);
  Device* old = nullptr;
  {
    Array<float> x(10);
    old = expect_device(x.data());
    x.forget();  // the reset frees it
  }
  DeviceStream* s = nullptr;
  DeviceEvent* e = nullptr;
  void* p = nullptr;
  ASSERT_TRUE(api().make_stream(old, s).ok());
  ASSERT_TRUE(api().make_event(old, false, e).ok());
  ASSERT_TRUE(api().allocate(old, 100, p).ok());
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(1), kSuccess);
  for (const bool is_used_again : {false, true}) {
    if (is_used_again) use_gpu(1);
    const Status status = api().zero(s, p, 100);
    EXPECT_EQ(status.code(), Code::device_failed);
    EXPECT_NE(status.text().find("cudaDeviceReset"), std::string::npos) << status.text();
    EXPECT_FALSE(api().record(e, s).ok());
    void* q = nullptr;
    EXPECT_FALSE(api().allocate(old, 100, q).ok());
  }
  api().free(old, p);
  api().free_event(e);
  api().free_stream(s);
  {
    const Array<float> x(10);
    EXPECT_NE(expect_device(x.data()), old);
    const OurStream again(*this, x.data());
  }
  use_gpu(0);
}

TEST_F(DeviceApiTest, static_shared_memory_counts) {
  const Array<float> x(std::vector<float>(256, 1));
  OurStream s(*this, x.data());
  api().launcher(s.get())(names::test_reverse, 1, 256, (48 << 10) - 512, TestAdd{x.data(), 256, 1});
  EXPECT_TRUE(api().launch_error(s.get()).ok());
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_EQ(x.get()[0], 2);
}

TEST_F(DeviceApiTest, sees_that_a_stream_is_captured_and_breaks_no_capture) {
  const Array<float> x(std::vector<float>(10, 1));
  OurStream s(*this, x.data());
  EXPECT_FALSE(api().capturing(device_of(s), nullptr));
  for (const unsigned flags : {0U, kStreamNonBlocking}) {
    CuStream program = nullptr;
    ASSERT_EQ(cuStreamCreate(&program, flags), kSuccess);
    ASSERT_EQ(cuStreamBeginCapture_v2(program, 0), kSuccess);
    EXPECT_TRUE(api().capturing(device_of(s), program));
    EXPECT_EQ(api().capturing(device_of(s), nullptr),
              flags == 0);  // a blocking stream is in the legacy one's way
    EXPECT_FALSE(api().follow_stream(s.get(), program).ok());
    EXPECT_FALSE(api().lead_stream(s.get(), program).ok());
    EXPECT_EQ(api().follow(s.get(), DeviceSync::legacy).ok(), flags != 0);
    std::thread([&] {  // of another thread, calls that capture forbids
      void* p = nullptr;
      EXPECT_TRUE(api().allocate(device_of(s), 100, p).ok());
      EXPECT_TRUE(api().zero(s.get(), p, 100).ok());
      EXPECT_TRUE(api().synchronize(s.get()).ok());
      api().free(device_of(s), p);
    })
        .join();
    void* graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(program, &graph), kSuccess) << "the capture was broken";
    ASSERT_EQ(cuStreamDestroy_v2(program), kSuccess);
  }
  const auto per_thread = reinterpret_cast<CuStream>(kStreamPerThread);
  ASSERT_EQ(cuStreamBeginCapture_v2(per_thread, 0), kSuccess);
  EXPECT_TRUE(api().capturing(device_of(s), nullptr));
  void* graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(per_thread, &graph), kSuccess);
}

TEST_F(DeviceApiTest, the_host_cannot_touch_device_memory) {
  const Array<float> x(10);
  OurStream s(*this, x.data());
  EXPECT_TRUE(api().zero(s.get(), x.data(), 4).ok());
  EXPECT_TRUE(api().synchronize(s.get()).ok());
  EXPECT_DEATH(*const_cast<volatile float*>(x.data()) = 1, "");
}

}  // namespace
}  // namespace mq::test
