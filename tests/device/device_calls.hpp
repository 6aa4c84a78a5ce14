// What tests of calls with vectors on a GPU share. It is the GPU of whatever driver the program has: nothing
// here is the fake one's alone.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/core/api.hpp"
#include "tests/device/fake_cuda/array.hpp"

namespace mq::test {

class DeviceCalls : public Api {
 protected:
  // One vector in either memory.
  template <class T>
  class Vector {
   public:
    Vector(const std::vector<T>& values, bool on_device) : host_(values) {
      if (on_device) device_ = std::make_unique<fake::Array<T>>(values);
    }
    T* data() { return device_ ? device_->data() : host_.data(); }
    std::vector<T> get() const { return device_ ? device_->get() : host_; }

   private:
    std::vector<T> host_;
    std::unique_ptr<fake::Array<T>> device_;
  };

  void SetUp() override {
    setenv("FAKE_CUDA_DEVICES", "2", 0);  // read at the fake driver's first call
    fake::use_gpu();
    Api::SetUp();
  }
  static int gpus() {
    int count = 0;
    EXPECT_EQ(fake::cuDeviceGetCount(&count), fake::kSuccess);
    return count;
  }
  static bool is_fake() {
    char name[64] = "";
    EXPECT_EQ(fake::cuDeviceGetName(name, sizeof name, 0), fake::kSuccess);
    return std::string_view(name).starts_with("Fake");
  }
  static bool runs_kernels() { return std::getenv("FAKE_CUDA_IMAGE") == nullptr; }
  // What the codecs of the host took in all calls; kernels add nothing unless MPIQ_CUDA_TIME asks for their
  // time.
  double host_codecs_s() const { return stats().encode_s + stats().decode_s; }
  // Whether a sweep over methods and plans has this pair, by their numbers. All pairs on one and two ranks
  // and on a machine's GPU; one half on three ranks and the other on four; in the variants of the driver and
  // of the messages a third, so that in each of them all methods and all plans have turns, if not in all
  // pairs.
  bool is_swept(std::size_t method, std::size_t plan) const {
    if (!is_fake()) return true;
    for (const char* const variant :
         {"FAKE_CUDA_IMAGE", "FAKE_CUDA_EAGER", "FAKE_CUDA_STRICT", "MPIQ_CUDA_WIRE"})
      if (std::getenv(variant) != nullptr) return (method + plan) % 3 == static_cast<std::size_t>(size) % 3;
    return size <= 2 || (method + plan + static_cast<std::size_t>(size)) % 2 == 0;
  }
  // Different on each rank.
  bool on_device(int turn) const { return ((rank + turn) & 1) != 0; }

  template <class T>
  std::vector<T> sum(const std::vector<T>& x, bool in, bool out, const Info& info) const {
    Vector<T> send(x, in), receive(std::vector<T>(x.size()), out);
    EXPECT_EQ(MPIQ_Allreduce(send.data(), receive.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(),
                             MPI_SUM, comm, info),
              MPI_SUCCESS);
    return receive.get();
  }
  std::vector<float> residual(const char* key, std::size_t n) const {
    std::vector<float> values(n);
    if (size > 1) {
      EXPECT_EQ(MPIQ_Residual_get(comm, key, 0, static_cast<MPI_Count>(n), values.data()), MPI_SUCCESS);
    }
    return values;
  }
  void reset() const { EXPECT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS); }

  template <class T>
  static fake::CuAddress address(const fake::Array<T>& a) {
    return reinterpret_cast<fake::CuAddress>(a.data());
  }
  static std::string hex(const void* p) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", p);
    return text;
  }
};

// Keeps a stream of the current GPU busy for some milliseconds, so that what comes after is still to be done
// when a call begins. The fake GPU needs none of it: it does nothing before it is waited for.
class Busy {
 public:
  Busy(fake::CuStream stream, bool is_fake) : memory_(is_fake ? 1 : std::size_t{256} << 20) {
    for (int i = 0; i < (is_fake ? 1 : 64); ++i)
      EXPECT_EQ(
          fake::cuMemsetD8Async(reinterpret_cast<fake::CuAddress>(memory_.data()), 0, memory_.size(), stream),
          fake::kSuccess);
  }

 private:
  fake::Array<char> memory_;
};

}  // namespace mq::test
