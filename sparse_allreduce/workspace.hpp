// Memory for sparse reductions, whose sizes depend on the data. It is taken in pieces and given back all at
// once. It is kept for the next call, because fresh pages cost more than the reduction of a small vector.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "mpi_quant/base/arena.hpp"

namespace mq::sparse {

class Workspace {
 public:
  // Returns `count` uninitialised elements of a trivial type, aligned to 64 bytes, valid until reset().
  // Throws std::bad_alloc.
  template <class T>
  std::span<T> take(std::size_t count) {
    if (count > kMost / sizeof(T)) throw std::bad_alloc();
    return {reinterpret_cast<T*>(take_bytes(count * sizeof(T))), count};
  }
  // Gives everything back. The next calls take from one contiguous block.
  void reset() noexcept {
    if (blocks_.size() > 1) {
      std::size_t all = 0;
      for (const Buffer& block : blocks_) all += block.bytes();
      blocks_.clear();
      Buffer whole;
      if (whole.reserve(all)) blocks_.push_back(std::move(whole));  // no allocation: it held more before
    }
    used_ = 0;
  }
  // Abandons the memory without freeing it, because messages may still be written into it.
  void leak() noexcept {
    for (Buffer& block : blocks_) block.leak();
    blocks_.clear();
    used_ = 0;
  }
  // Size of the memory held, taken or not.
  std::size_t bytes() const {
    std::size_t all = 0;
    for (const Buffer& block : blocks_) all += block.bytes();
    return all;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 46, kAlign = 64, kLeast = std::size_t{1} << 16;

  std::byte* take_bytes(std::size_t bytes) {
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    if (blocks_.empty() || blocks_.back().bytes() - used_ < bytes) {
      Buffer block;
      if (!block.reserve(bytes > kLeast ? bytes : kLeast)) throw std::bad_alloc();
      blocks_.push_back(std::move(block));
      used_ = 0;
    }
    std::byte* const at = blocks_.back().data() + used_;
    used_ += bytes;
    return at;
  }

  std::vector<Buffer> blocks_;
  std::size_t used_ = 0;  // bytes taken from the last block
};

}  // namespace mq::sparse
