// Memory that a measurement sends from and receives into: pools of slots, marched through so that no call
// finds its vector in a cache because the last one left it there, with guard bytes between the slots. In the
// memory of a GPU a pool is there, with an image of the same layout on the host, where contents are made and
// looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bench/gpu.hpp"

namespace mq::bench {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kGuardBytes = 2 * kAlignment;

// Bytes from one slot to the next: the vector in whole cache lines and two lines of guard.
constexpr std::uint64_t slot_stride(std::uint64_t vector_bytes) {
  return (vector_bytes + kAlignment - 1) / kAlignment * kAlignment + kGuardBytes;
}

std::uint64_t hash_bytes(const void* data, std::size_t n);  // detects a changed bit, not an adversary

class Pool {
 public:
  // One guard before, then as many slots as fit into `bytes`. Every page is touched. Throws std::bad_alloc.
  // gpu: whose memory the slots are in; null: the host's.
  explicit Pool(std::uint64_t bytes, std::shared_ptr<const Gpu> gpu = nullptr);
  // Cuts the pool anew for vectors of another size, into a multiple of so many slots where they fit. Contents
  // stay, so inputs need not be made again.
  void cut(std::uint64_t vector_bytes, std::size_t multiple = 1);
  std::size_t slots() const { return slots_; }
  std::byte* slot(std::size_t i) const { return data_.get() + kGuardBytes + i * slot_stride(vector_bytes_); }
  // What a call is given: the slot itself, or the one on the GPU of which slot() is the image.
  std::byte* place(std::size_t i) const {
    return gpu_ ? device_.data() + kGuardBytes + i * slot_stride(vector_bytes_) : slot(i);
  }
  std::uint64_t offset_bytes(std::size_t i) const {
    return i * slot_stride(vector_bytes_);
  }  // of a slot, from the first
  std::span<std::byte> all() const { return {data_.get() + kGuardBytes, capacity_}; }

  // Between image and GPU; nothing to do for a pool of the host.
  void push() const;  // all of it, guards too
  void pull() const;  // likewise
  void push_slot(std::size_t i) const;
  void pull_slot(std::size_t i) const;

  void arm_guards();  // overwrites everything between the slots; a GPU's slots get what their image holds
  bool guards_intact() const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::shared_ptr<const Gpu> gpu_;
  GpuMemory device_;
  std::uint64_t capacity_, vector_bytes_ = 0;
  std::size_t slots_ = 0;
};

}  // namespace mq::bench
