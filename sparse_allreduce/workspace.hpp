// Memory of sparse reductions, whose sizes depend on the data: taken piece by piece, given back all at once,
// and kept for the next call, because fresh pages cost more than the reduction of a small vector.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "mpi_quant/base/arena.hpp"

namespace mq::sparse {

class Workspace {
 public:
  // count elements of a trivial type at a 64-byte boundary, unspecified, until reset(). Throws
  // std::bad_alloc.
  template <class T>
  std::span<T> take(std::size_t count) {
    if (count > kMost / sizeof(T)) throw std::bad_alloc();
    return {reinterpret_cast<T*>(take_bytes(count * sizeof(T))), count};
  }
  // Everything taken is free to be taken again, from one piece of memory.
  void reset() noexcept {
    if (blocks_.size() > 1) {
      std::size_t all = 0;
      for (const Buffer& block : blocks_) all += block.bytes();
      blocks_.clear();
      Buffer whole;
      if (whole.reserve(all)) blocks_.push_back(std::move(whole));  // has room: there were more
    }
    used_ = 0;
  }
  // Gives the memory up for ever: messages may still be on their way into it.
  void leak() noexcept {
    for (Buffer& block : blocks_) block.leak();
    blocks_.clear();
    used_ = 0;
  }
  // Held, whether taken or not.
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
  std::size_t used_ = 0;  // of the last block
};

}  // namespace mq::sparse
