// A program with two fake GPUs and the library's table, for tests of the table.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "mpi_quant/base/device.hpp"
#include "tests/device/fake_cuda/array.hpp"
#include "tests/device/fake_cuda/test_kernels.hpp"

namespace mq::test {

inline void* as_pointer(fake::CuAddress p) { return reinterpret_cast<void*>(p); }
inline fake::CuAddress as_address(const void* p) { return reinterpret_cast<fake::CuAddress>(p); }

class DeviceScene : public ::testing::Test {
 public:
  static const DeviceApi& api() { return *device_api(); }

  // Where p is, which must be known.
  static Device* expect_device(const void* p) {
    Where w;
    const Status status = api().where(p, w);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(w.memory, Memory::device);
    EXPECT_NE(w.device, nullptr);
    return w.device;
  }
  static void expect_host(const void* p) {
    Where w{Memory::device, nullptr};
    const Status status = api().where(p, w);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(w.memory, Memory::host);
    EXPECT_EQ(w.device, nullptr);
  }

 protected:
  void SetUp() override {
    setenv("FAKE_CUDA_DEVICES", "2", 1);  // read at the driver's first call
    fake_cuda_forget();
    fake::use_gpu(0);
    ASSERT_NE(device_api(), nullptr) << device_unusable_reason();
    counts_ = living();
  }
  void TearDown() override {
    fake_cuda_forget();
    EXPECT_EQ(living(), counts_) << "device, pinned, streams, events";
  }
  static std::vector<long> living() {
    std::vector<long> counts;
    for (const char* what : {"device", "pinned", "streams", "events"})
      counts.push_back(fake_cuda_living(what));
    return counts;
  }

 private:
  std::vector<long> counts_;
};

// A stream of ours on the GPU where p is.
class OurStream {
 public:
  OurStream(const DeviceScene&, const void* p) : device_(DeviceScene::expect_device(p)) {
    const Status status = DeviceScene::api().make_stream(device_, stream_);
    if (!status.ok()) std::abort();
  }
  OurStream(const OurStream&) = delete;
  OurStream& operator=(const OurStream&) = delete;
  ~OurStream() { DeviceScene::api().free_stream(stream_); }
  DeviceStream* get() const { return stream_; }
  Device* device() const { return device_; }
  // What the stream sees at p once it comes to it.
  std::vector<std::uint8_t> read(const void* p, std::size_t n) const {
    std::vector<std::uint8_t> seen(n);
    EXPECT_TRUE(DeviceScene::api().copy(stream_, seen.data(), p, n).ok());
    EXPECT_TRUE(DeviceScene::api().synchronize(stream_).ok());
    return seen;
  }

 private:
  Device* device_;
  DeviceStream* stream_ = nullptr;
};
inline Device* device_of(const OurStream& s) { return s.device(); }

}  // namespace mq::test
