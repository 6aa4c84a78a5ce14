// One GPU as the benchmark needs it: memory, copies, facts. It uses the driver's own interface, found at run
// time. So building needs no CUDA toolkit, and a run over host memory never maps a driver. It does not use
// the library's DeviceApi, because the benchmark must not measure the library with the library's own code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/rows.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// After an error of the GPU nothing more can be measured on it.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Gpu {
 public:
  // Opens GPU number (local rank modulo the number of GPUs) of those that the driver shows. It maps
  // libcuda.so.1 and makes the GPU's primary context current on the calling thread, as in a program that uses
  // the CUDA runtime.
  static Result<std::shared_ptr<const Gpu>> open(int local_rank);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  GpuRow info() const;
  // All of these throw std::bad_alloc if there is no memory, and GpuError for other failures. Copies are
  // complete on return.
  void* allocate(std::size_t bytes) const;         // on the device
  void* allocate_pinned(std::size_t bytes) const;  // on the host; copies from it are fast
  void free(void* p) const noexcept;
  void free_pinned(void* p) const noexcept;
  void to_device(void* device, const void* host, std::size_t bytes) const;
  void to_host(void* host, const void* device, std::size_t bytes) const;
  void within(void* to, const void* from, std::size_t bytes) const;  // both on the device
  void zero(void* device, std::size_t bytes) const;
  void wait() const;  // until the GPU has finished all work of this process

 private:
  struct Driver;
  explicit Gpu(std::unique_ptr<Driver> driver);
  void check(int error, const char* what) const;
  std::string text(int error) const;
  std::unique_ptr<Driver> driver_;
};

// Memory that is freed with its owner. Without a GPU it owns nothing.
class GpuMemory {
 public:
  enum class Kind : std::uint8_t { device, pinned };
  GpuMemory() = default;
  GpuMemory(std::shared_ptr<const Gpu> gpu, Kind kind, std::size_t bytes);
  ~GpuMemory();
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::shared_ptr<const Gpu> gpu_;
  Kind kind_ = Kind::device;
  void* data_ = nullptr;
};

}  // namespace mq::bench
