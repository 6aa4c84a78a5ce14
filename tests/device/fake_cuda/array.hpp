// A vector in the memory of a GPU, the fake one or another, for tests. The program's side: it waits for its
// own work.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/device/fake_cuda/fake.hpp"

namespace mq::fake {

// The primary context of a GPU, current on this thread as the CUDA runtime makes it.
inline void use_gpu(int device = 0) {
  CuContext context = nullptr;
  CuResult result = cuInit(0);
  if (result == kSuccess) result = cuDevicePrimaryCtxRetain(&context, device);
  if (result == kSuccess) result = cuCtxSetCurrent(context);
  if (result == kSuccess) return;
  std::fprintf(stderr, "GPU %d cannot be used: CUDA error %d\n", device, result);
  std::abort();
}

// Owns device memory of the current context. Also of no elements. Freed where it was made.
template <class T>
class Array {
 public:
  explicit Array(std::size_t n) : n_(n) {
    CuAddress p = 0;
    if (cuMemAlloc_v2(&p, n * sizeof(T) + 1) != kSuccess) std::abort();
    data_ = reinterpret_cast<T*>(p);
  }
  explicit Array(const std::vector<T>& from) : Array(from.size()) { set(from); }
  Array(Array&& other) noexcept : data_(std::exchange(other.data_, nullptr)), n_(other.n_) {}
  Array& operator=(Array&&) = delete;
  ~Array() {
    if (data_ != nullptr) (void)cuMemFree_v2(reinterpret_cast<CuAddress>(data_));
  }
  T* data() const { return data_; }   // an address of the GPU's
  void forget() { data_ = nullptr; }  // it is freed otherwise
  std::size_t size() const { return n_; }
  // cuMemcpy from memory that is not pinned returns before the GPU has all of it. A stream that does not wait
  // for the legacy stream would see that.
  void set(const std::vector<T>& from) {
    if (n_ > 0 && (cuMemcpy(reinterpret_cast<CuAddress>(data_), reinterpret_cast<CuAddress>(from.data()),
                            n_ * sizeof(T)) != kSuccess ||
                   cuStreamSynchronize(nullptr) != kSuccess))
      std::abort();
  }
  // After the legacy stream's work, as cudaMemcpy: nothing else is waited for.
  std::vector<T> get() const {
    std::vector<T> out(n_);
    if (n_ > 0 && cuMemcpy(reinterpret_cast<CuAddress>(out.data()), reinterpret_cast<CuAddress>(data_),
                           n_ * sizeof(T)) != kSuccess)
      std::abort();
    return out;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace mq::fake
