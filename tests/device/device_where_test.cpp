// Where pointers point, as the table of libmpi_quant_cuda.so tells it on the fake driver.

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "tests/device/device_scene.hpp"

namespace mq::test {
namespace {

using namespace mq::fake;

class DeviceWhereTest : public DeviceScene {};

TEST_F(DeviceWhereTest, knows_device_memory_wherever_it_begins) {
  const Array<float> x(1000);
  const Device* const device = expect_device(x.data());
  EXPECT_EQ(expect_device(x.data() + 999), device);
  EXPECT_EQ(expect_device(reinterpret_cast<const std::byte*>(x.data()) + 3999), device);
  expect_host(x.data() + 1001);
  CuAddress managed = 0, pool = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 100, 1), kSuccess);
  ASSERT_EQ(cuMemAllocAsync(&pool, 100, nullptr), kSuccess);  // of no context
  EXPECT_EQ(expect_device(as_pointer(managed)), device);
  EXPECT_EQ(expect_device(as_pointer(pool)), device);
  ASSERT_EQ(cuMemFree_v2(managed), kSuccess);
  ASSERT_EQ(cuMemFree_v2(pool), kSuccess);
  expect_host(as_pointer(managed));  // freed
  expect_host(as_pointer(pool));
}

TEST_F(DeviceWhereTest, all_else_is_host_memory) {
  std::vector<float> heap(1000);
  expect_host(nullptr);
  expect_host(heap.data());
  expect_host(reinterpret_cast<const void*>(std::intptr_t{-1}));
  ASSERT_EQ(cuMemHostRegister_v2(heap.data(), 4000, 0), kSuccess);
  expect_host(heap.data() + 5);
  ASSERT_EQ(cuMemHostUnregister(heap.data()), kSuccess);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 100, 0), kSuccess);
  expect_host(pinned);
  ASSERT_EQ(cuMemFreeHost(pinned), kSuccess);
}

TEST_F(DeviceWhereTest, costs_one_call_of_the_driver_and_one_for_device_memory) {
  const Array<float> x(10);
  (void)expect_device(x.data());
  fake_cuda_forget();
  expect_host(&x);
  EXPECT_EQ(fake_cuda_calls(nullptr), 1);
  (void)expect_device(x.data());
  EXPECT_EQ(fake_cuda_calls(nullptr), 3);  // and whether the context is the same still
}

TEST_F(DeviceWhereTest, each_gpu_and_each_context_is_a_device) {
  const Array<float> first(10);
  const Device* const device = expect_device(first.data());
  CuContext own = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&own, 0, 0), kSuccess);
  {
    const Array<float> apart(10);
    const Device* const other = expect_device(apart.data());
    EXPECT_NE(other, device);
    use_gpu(1);
    const Array<float> second(10);
    const Device* const another = expect_device(second.data());
    EXPECT_NE(another, device);
    EXPECT_STREQ(api().name(const_cast<Device*>(another)), "Fake GPU 1");
    EXPECT_EQ(expect_device(apart.data()), other);
    EXPECT_EQ(expect_device(first.data()), device);
    ASSERT_EQ(cuCtxSetCurrent(own), kSuccess);
  }
  ASSERT_EQ(cuCtxDestroy_v2(own), kSuccess);
  use_gpu(0);
}

TEST_F(DeviceWhereTest, threads_without_a_context_know_device_memory) {
  const Array<float> x(10);
  std::vector<std::thread> threads;
  std::array<Device*, 8> found{};
  for (Device*& device : found)
    threads.emplace_back([&] {
      Where w;
      EXPECT_TRUE(api().where(x.data(), w).ok());
      device = w.device;
      CuContext current = nullptr;
      EXPECT_EQ(cuCtxGetCurrent(&current), kSuccess);
      EXPECT_EQ(current, nullptr);
    });
  for (std::thread& t : threads) t.join();
  for (const Device* device : found) EXPECT_EQ(device, found[0]);
}

TEST_F(DeviceWhereTest, a_driver_that_asks_for_a_context_gets_one) {
  const Array<float> x(10);
  const int here = 0;
  Where w;
  for (const CuResult code : {kInvalidContext, kContextIsDestroyed}) {
    fake_cuda_fail("cuPointerGetAttributes", 1, code);
    EXPECT_TRUE(api().where(x.data(), w).ok());
    EXPECT_EQ(w.memory, Memory::device);
    fake_cuda_fail("cuPointerGetAttributes", 1, code);
    EXPECT_TRUE(api().where(&here, w).ok());
    EXPECT_EQ(w.memory, Memory::host);
  }
  fake_cuda_fail("cuPointerGetAttributes", 0, kInvalidContext);  // in every context
  EXPECT_TRUE(api().where(&here, w).ok());
  EXPECT_EQ(w.memory, Memory::host);
}

TEST_F(DeviceWhereTest, a_driver_in_trouble_is_not_taken_for_host_memory) {
  const Array<float> x(10);
  Where w;
  for (const CuResult code : {kNotInitialized, kDeinitialized, kInvalidValue}) {
    fake_cuda_fail("cuPointerGetAttributes", 1, code);
    EXPECT_TRUE(api().where(x.data(), w).ok());
    EXPECT_EQ(w.memory, Memory::host);
  }
  for (const CuResult code : {kIllegalAddress, 999}) {
    fake_cuda_fail("cuPointerGetAttributes", 1, code);
    const Status status = api().where(x.data(), w);
    EXPECT_EQ(status.code(), Code::device_failed);
    EXPECT_NE(status.text().find("cuPointerGetAttributes"), std::string::npos) << status.text();
    fake_cuda_forget();
  }
}

}  // namespace
}  // namespace mq::test
