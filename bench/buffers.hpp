// The memory that a measurement sends from and receives into: pools of slots. Successive calls use successive
// slots, so that no call finds its vector in a cache because of the call before. There are guard bytes
// between the slots. If the vectors are in the memory of a GPU, the slots are there, and an image of the same
// layout is on the host, where contents are made and checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bench/gpu.hpp"

namespace mq::bench {

inline constexpr std::size_t kAlignment = 64;
inline constexpr std::size_t kGuardBytes = 2 * kAlignment;

// Bytes from one slot to the next: the vector in whole cache lines, and two lines of guard.
constexpr std::uint64_t slot_stride(std::uint64_t vector_bytes) {
  return (vector_bytes + kAlignment - 1) / kAlignment * kAlignment + kGuardBytes;
}

std::uint64_t hash_bytes(const void* data, std::size_t n);  // detects a changed bit, not an adversary

class Pool {
 public:
  // One guard comes first, then as many slots as fit into `bytes`. Touches every page. Throws std::bad_alloc.
  // gpu: the GPU whose memory holds the slots; null: they are on the host.
  explicit Pool(std::uint64_t bytes, std::shared_ptr<const Gpu> gpu = nullptr);
  // Cuts the pool into slots for vectors of another size. The number of slots is a multiple of `multiple` if
  // that many fit. The contents stay, so inputs need not be made again.
  void cut(std::uint64_t vector_bytes, std::size_t multiple = 1);
  std::size_t slots() const { return slots_; }
  std::byte* slot(std::size_t i) const { return data_.get() + kGuardBytes + i * slot_stride(vector_bytes_); }
  // The address that a call is given: the slot itself, or the slot on the GPU that has slot() as its image.
  std::byte* place(std::size_t i) const {
    return gpu_ ? device_.data() + kGuardBytes + i * slot_stride(vector_bytes_) : slot(i);
  }
  // Of slot i, from slot 0.
  std::uint64_t offset_bytes(std::size_t i) const { return i * slot_stride(vector_bytes_); }
  std::span<std::byte> all() const { return {data_.get() + kGuardBytes, capacity_}; }

  // Copies between the image and the GPU. They do nothing for a pool on the host.
  void push() const;  // the whole pool with its guards
  void pull() const;  // the whole pool, back
  void push_slot(std::size_t i) const;
  void pull_slot(std::size_t i) const;

  // overwrites everything between the slots; slots on a GPU get the contents of their image
  void arm_guards();
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

// A pool with a single slot.
inline Pool slot_for(std::size_t bytes) {
  Pool pool(slot_stride(std::max<std::size_t>(bytes, 1)));
  pool.cut(bytes);
  return pool;
}

}  // namespace mq::bench
