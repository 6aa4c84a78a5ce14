// Device memory outside the critical path: copies that are complete when they return, and arrays that own
// their memory.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "mpi_quant/base/device.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// Copies between any two addresses, host or device, after the work that the program has launched before
// (MPIQ_CUDA_SYNC). When it returns, the copy is complete or has failed.
Status copy_now(void* to, const void* from, std::size_t bytes) noexcept;
// The same, if one of the two is known to be memory of this device.
Status copy_now(const DeviceApi& api, Device* device, void* to, const void* from, std::size_t bytes) noexcept;
// Copies pieces of a device's memory to the host, one after the other. It waits only once, so it is faster
// than one copy for each piece. `to` has room for all.
struct DevicePiece {
  const void* from = nullptr;
  std::size_t bytes = 0;
};
Status gather_now(const DeviceApi& api, Device* device, std::byte* to,
                  std::span<const DevicePiece> pieces) noexcept;
// True if p is memory of a device. An error if the driver cannot tell.
Result<bool> is_on_device(const void* p) noexcept;
// True if p is memory of a device and a stream is being captured, as far as DeviceApi::capturing can tell.
// Then nothing can be copied.
bool is_captured(const void* p) noexcept;

// Memory on a device. data() is null if there is none.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  // The buffer must be empty.
  Status allocate_zeroed(const DeviceApi& api, Device* device, std::size_t bytes) noexcept;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const DeviceApi* api() const { return api_; }
  Device* device() const { return device_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  const DeviceApi* api_ = nullptr;
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mq
