// Memory that the library keeps between calls: scratch and residuals. It is aligned to cache lines and on
// huge pages if the system grants them. Lack of memory is a return value, not an exception.
#pragma once

#include <cstddef>
#include <utility>

namespace mq {

// Scratch memory is divided at multiples of these: on the host, and on a device.
inline constexpr std::size_t kHostLine = 64, kDeviceLine = 256;
constexpr std::size_t round_up(std::size_t bytes, std::size_t line) {
  return (bytes + line - 1) / line * line;
}

class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Gets at least `bytes` of zeroed memory at a 64-byte boundary, and releases the old memory. False: out of
  // memory.
  [[nodiscard]] bool allocate_zeroed(std::size_t bytes);
  // Grows to at least `bytes`. After growing the contents are unspecified. False: out of memory; the old
  // memory is kept.
  [[nodiscard]] bool reserve(std::size_t bytes);
  // Gives up the memory without freeing it, because somebody may still write to it.
  void leak() {
    data_ = nullptr;
    bytes_ = 0;
  }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mq
