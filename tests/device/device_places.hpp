// Vectors in any memory of a machine with two GPUs of the fake driver, for tests of what a call finds there.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/device/fake_cuda/array.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {

// Host memory, or the memory of a GPU, which may be managed.
struct Place {
  int gpu = -1;
  bool managed = false;
};
inline constexpr Place kHost{}, kGpu0{0, false}, kGpu1{1, false}, kManaged0{0, true}, kManaged1{1, true};

inline std::string name(Place place) {
  if (place.gpu < 0) return "host";
  return (place.managed ? "managed" : "gpu") + std::to_string(place.gpu);
}

inline fake::CuContext current_context() {
  fake::CuContext context = nullptr;
  EXPECT_EQ(fake::cuCtxGetCurrent(&context), fake::kSuccess);
  return context;
}

// Makes a GPU the calling thread's while it lives; a negative one: none.
class Current {
 public:
  explicit Current(int gpu) : before_(current_context()) {
    if (gpu >= 0)
      fake::use_gpu(gpu);
    else
      (void)fake::cuCtxSetCurrent(nullptr);
  }
  ~Current() { (void)fake::cuCtxSetCurrent(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  fake::CuContext before_;
};

template <class T>
class Vector {
 public:
  // at: the address of one that has been freed; null: anywhere.
  Vector(const std::vector<T>& values, Place place, T* at = nullptr) : host_(values), place_(place) {
    if (place.gpu < 0) return;
    const Current current(place.gpu);
    fake_cuda_place(at);
    const std::size_t bytes = values.size() * sizeof(T) + 1;
    if ((place.managed ? fake::cuMemAllocManaged(&device_, bytes, 1)
                       : fake::cuMemAlloc_v2(&device_, bytes)) != fake::kSuccess)
      std::abort();
    copy(device_, address(host_.data()));
  }
  ~Vector() {
    if (device_ != 0) (void)fake::cuMemFree_v2(device_);
  }
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;
  T* data() { return device_ == 0 ? host_.data() : reinterpret_cast<T*>(device_); }
  void forget() { device_ = 0; }  // it is freed otherwise

  void set(const std::vector<T>& values) {
    host_ = values;
    if (device_ == 0) return;
    const Current current(place_.gpu);
    copy(device_, address(host_.data()));
  }
  // By work in the default stream of the vector's GPU, which is not waited for.
  void set_later(const Vector& from) {
    host_ = from.host_;
    if (device_ == 0) return;
    const Current current(place_.gpu);
    EXPECT_EQ(fake::cuMemcpyAsync(device_, from.device_, bytes(), nullptr), fake::kSuccess);
  }
  void fill_later(unsigned char value) {
    if (device_ == 0) return;
    const Current current(place_.gpu);
    EXPECT_EQ(fake::cuMemsetD8Async(device_, value, bytes(), nullptr), fake::kSuccess);
  }
  // After the work of the default stream of its GPU; the processor may read managed memory without.
  std::vector<T> get() const {
    if (device_ == 0) return host_;
    std::vector<T> values(host_.size());
    const Current current(place_.gpu);
    if (!place_.managed) {
      copy(address(values.data()), device_);
      return values;
    }
    const auto* const there = reinterpret_cast<const T*>(device_);
    values.assign(there, there + values.size());
    EXPECT_EQ(fake::cuCtxSynchronize(), fake::kSuccess);
    EXPECT_TRUE(std::memcmp(there, values.data(), bytes()) == 0) << "written after the call";
    return values;
  }

 private:
  static fake::CuAddress address(const T* p) { return reinterpret_cast<fake::CuAddress>(p); }
  std::size_t bytes() const { return host_.size() * sizeof(T); }
  void copy(fake::CuAddress to, fake::CuAddress from) const {
    if (fake::cuMemcpy(to, from, bytes()) != fake::kSuccess) std::abort();
  }

  std::vector<T> host_;
  Place place_;
  fake::CuAddress device_ = 0;
};

}  // namespace mq::test
