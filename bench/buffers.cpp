#include "bench/buffers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace mq::bench {
namespace {

constexpr std::byte kGuard{0xa5};

bool is_guard(const std::byte* p, std::size_t n) {
  return std::all_of(p, p + n, [](std::byte b) { return b == kGuard; });
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t n) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t h = 0x9e3779b97f4a7c15U ^ n;
  const auto absorb = [&h](std::uint64_t word) {
    h = (h ^ word) * 0xff51afd7ed558ccdU;
    h ^= h >> 32;
  };
  std::uint64_t word = 0;
  for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
    std::memcpy(&word, p, sizeof word);
    absorb(word);
  }
  word = 0;
  std::memcpy(&word, p, n);
  absorb(word);
  return h;
}

void Pool::Free::operator()(std::byte* p) const { std::free(p); }

Pool::Pool(std::uint64_t bytes, std::shared_ptr<const Gpu> gpu)
    : gpu_(std::move(gpu)),
      device_(gpu_, GpuMemory::Kind::device,
              (bytes + kAlignment - 1) / kAlignment * kAlignment + kGuardBytes),
      capacity_((bytes + kAlignment - 1) / kAlignment * kAlignment) {
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, capacity_ + kGuardBytes)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::fill_n(data_.get(), capacity_ + kGuardBytes, kGuard);
  push();
}

void Pool::push() const {
  if (gpu_) gpu_->to_device(device_.data(), data_.get(), capacity_ + kGuardBytes);
}

void Pool::pull() const {
  if (gpu_) gpu_->to_host(data_.get(), device_.data(), capacity_ + kGuardBytes);
}

void Pool::push_slot(std::size_t i) const {
  if (gpu_) gpu_->to_device(place(i), slot(i), vector_bytes_);
}

void Pool::pull_slot(std::size_t i) const {
  if (gpu_) gpu_->to_host(slot(i), place(i), vector_bytes_);
}

void Pool::cut(std::uint64_t vector_bytes, std::size_t multiple) {
  vector_bytes_ = vector_bytes;
  slots_ = std::max<std::size_t>(1, capacity_ / slot_stride(vector_bytes));
  if (slots_ > multiple) slots_ -= slots_ % multiple;
}

void Pool::arm_guards() {
  std::fill_n(data_.get(), kGuardBytes, kGuard);
  for (std::size_t i = 0; i < slots_; ++i)
    std::fill_n(slot(i) + vector_bytes_, slot_stride(vector_bytes_) - vector_bytes_, kGuard);
  push();
}

bool Pool::guards_intact() const {
  pull();
  if (!is_guard(data_.get(), kGuardBytes)) return false;
  for (std::size_t i = 0; i < slots_; ++i)
    if (!is_guard(slot(i) + vector_bytes_, slot_stride(vector_bytes_) - vector_bytes_)) return false;
  return true;
}

}  // namespace mq::bench
