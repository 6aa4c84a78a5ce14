// The language in which kernels are written: a small part of CUDA C++ behind functions. The same source is
// compiled by nvcc for a GPU (simt_device.cuh) and by the host's compiler for the tests' emulator
// (simt_host.cuh, tests/device/simt/). Both define, in mq::simt:
//
//   MQ_KERNEL(name, Args, threads) { ... args ... }   a kernel of this name, with at most `threads` per block
//   MQ_KERNEL_RESIDENT(name, Args, threads, blocks)   ... of which `blocks` should fit a multiprocessor
//   thread(), block(), threads(), blocks()            32-bit indices and sizes; also lane(), warp(), warps()
//   barrier()                                         waits for all threads of the block
//   barrier_count(bool), barrier_or(bool)             ... and returns how many, or whether any, passed true
//   shared<T>(), shared<T, 1>()                       a T in the block's shared memory, one for each tag
//   dynamic_shared()                                  Launch::shared_bytes of it, 16-byte aligned
//   warp_sync(), ballot, any, shuffle, shuffle_up, shuffle_down, shuffle_xor
//   atomic_add, atomic_max, atomic_min, atomic_or, atomic_exchange, atomic_swap_if   return the old value
//   load_acquire, store_release, pause()              to wait for another block with a smaller ticket
//   load_relaxed, fence()                             ... to poll, and once after the poll succeeds
//   count_ones, count_leading_zeros, count_trailing_zeros    32 and 64 bits; the last two for non-zero values
//   square_root(double)                               rounded to nearest, as on the host
//   MQ_UNROLL(4) for (...)                            like nvcc's #pragma unroll 4
//
// All 32 lanes of a warp must call a warp function together, at the same place in the source; the emulator
// rejects anything else. Floats are added and multiplied in the order written, without fused operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/hd.hpp"

#ifdef __CUDACC__
#  include "kernels/cuda/simt_device.cuh"
#else
#  include "kernels/cuda/simt_host.cuh"
#endif

namespace mq::simt {

inline constexpr std::uint32_t kAll = 0xffffffffu;

MQ_DEVICE std::uint32_t lane() { return thread() % 32; }
MQ_DEVICE std::uint32_t warp() { return thread() / 32; }
MQ_DEVICE std::uint32_t warps() { return threads() / 32; }

template <class T>
MQ_DEVICE constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
MQ_DEVICE constexpr T greater(T a, T b) {
  return a < b ? b : a;
}

// The sum, the maximum and the minimum of the 32 lanes' integers; every lane gets the result.
template <class T>
MQ_DEVICE T warp_sum(T v) {
  static_assert(std::is_integral_v<T>, "the order of a sum of floats is part of the wire");
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    return reduce_sum(v);
  } else {
    for (std::uint32_t d = 16; d > 0; d /= 2) v += shuffle_xor(v, d);
    return v;
  }
}
template <class T>
MQ_DEVICE T warp_max(T v) {
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    return reduce_max(v);
  } else {
    for (std::uint32_t d = 16; d > 0; d /= 2) v = greater(v, shuffle_xor(v, d));
    return v;
  }
}
template <class T>
MQ_DEVICE T warp_min(T v) {
  for (std::uint32_t d = 16; d > 0; d /= 2) v = smaller(v, shuffle_xor(v, d));
  return v;
}
// The bits that any lane has.
template <class T>
MQ_DEVICE T warp_or(T v) {
  for (std::uint32_t d = 16; d > 0; d /= 2) v |= shuffle_xor(v, d);
  return v;
}
// Returns the sum of the lanes before this one. `total` becomes the sum of all lanes.
template <class T>
MQ_DEVICE T warp_before(T v, T& total) {
  static_assert(std::is_integral_v<T>);
  T upto = v;
  for (std::uint32_t d = 1; d < 32; d *= 2) {
    const T other = shuffle_up(upto, d);
    if (lane() >= d) upto += other;
  }
  total = shuffle(upto, 31);
  return upto - v;
}

// 16 bytes that are moved at once.
struct alignas(16) Sixteen {
  std::uint32_t word[4];
};

MQ_DEVICE bool aligned(const void* p, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

// Loads and stores a value at any address. If the address is a multiple of its size, this is one access. The
// other case is written out byte by byte, because with memcpy nvcc would merge both cases into byte accesses.
template <class T>
MQ_DEVICE T load(const std::byte* p) {
  using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  static_assert(sizeof(T) == sizeof(Word));
  if (aligned(p, sizeof(T))) return *reinterpret_cast<const T*>(p);
  Word word = 0;
  MQ_UNROLL(8)
  for (std::uint32_t i = 0; i < sizeof(T); ++i)
    word = static_cast<Word>(word | static_cast<Word>(static_cast<Word>(p[i]) << (8 * i)));
  return __builtin_bit_cast(T, word);
}
template <class T>
MQ_DEVICE void store(std::byte* p, T v) {
  using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  static_assert(sizeof(T) == sizeof(Word));
  if (aligned(p, sizeof(T))) {
    *reinterpret_cast<T*>(p) = v;
    return;
  }
  const auto word = __builtin_bit_cast(Word, v);
  MQ_UNROLL(8)
  for (std::uint32_t i = 0; i < sizeof(T); ++i) p[i] = static_cast<std::byte>(word >> (8 * i));
}

// Calls store_at(i, load_at(i)) for i = begin, begin + step, ... below end, with several loads before the
// first store. The compiler may not reorder them itself, because a store might change the next load; so the
// elements must be independent. A remainder that is too small for a large batch goes in smaller batches.
template <std::uint32_t kBatch, class Index, class Load, class Store>
MQ_DEVICE void in_batches(Index begin, std::type_identity_t<Index> end, std::type_identity_t<Index> step,
                          const Load& load_at, const Store& store_at) {
  Index at = begin;
  if constexpr (kBatch > 1)
    for (; at + (kBatch - 1) * step < end; at += kBatch * step) {
      decltype(load_at(at)) loaded[kBatch];
      MQ_UNROLL(kBatch)
      for (std::uint32_t k = 0; k < kBatch; ++k) loaded[k] = load_at(at + k * step);
      MQ_UNROLL(kBatch)
      for (std::uint32_t k = 0; k < kBatch; ++k) store_at(at + k * step, loaded[k]);
    }
  if constexpr (kBatch > 4) {
    in_batches<4>(at, end, step, load_at, store_at);
  } else {
    MQ_UNROLL(1)
    for (; at < end; at += step) store_at(at, load_at(at));
  }
}

template <class To, class From>
MQ_DEVICE constexpr To bits_as(const From& from) {
  return __builtin_bit_cast(To, from);
}

using kernels::is_finite;

}  // namespace mq::simt
