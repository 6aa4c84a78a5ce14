// The kernel language (simt.cuh) on the host: what the emulator (tests/device/simt/emulator.cpp) defines, and
// the functions that kernels call. The threads of a thread block take turns on one host thread.
#pragma once

#include "kernels/cuda/names.hpp"

#define MQ_DEVICE inline
#define MQ_UNROLL(times)
#define MQ_KERNEL(name, Args, threads)                                                                  \
  static_assert(::mq::kernels::names::name.text != nullptr);                                            \
  static void name(const Args& args);                                                                   \
  [[maybe_unused]] static const bool name##_is_known = ::mq::simt::add_kernel(                          \
      {#name, sizeof(Args), threads, [](const void* args) { name(*static_cast<const Args*>(args)); }}); \
  static void name(const Args& args)
#define MQ_KERNEL_RESIDENT(name, Args, threads, blocks) MQ_KERNEL(name, Args, threads)

namespace mq::simt {

// A kernel in the emulator's table.
struct Kernel {
  const char* name;
  std::size_t args_bytes;
  std::uint32_t threads;  // per block, at most
  void (*run)(const void* args);
};
bool add_kernel(const Kernel&);

// The thread that is running.
struct Here {
  std::uint32_t thread, block, threads, blocks;
};
extern constinit thread_local Here* here;
// Both let the other threads run until all of them have called it.
const std::uint64_t* meet_warp(std::uint64_t value);  // returns the 32 lanes' values
std::uint32_t meet_block(std::uint32_t value);        // returns the sum of all threads' values
std::byte* shared_object(const void* type, std::size_t bytes);
std::byte* dynamic_shared();
void pause();

inline std::uint32_t thread() { return here->thread; }
inline std::uint32_t block() { return here->block; }
inline std::uint32_t threads() { return here->threads; }
inline std::uint32_t blocks() { return here->blocks; }

inline void barrier() { meet_block(0); }
inline std::uint32_t barrier_count(bool is) { return meet_block(is); }
inline bool barrier_or(bool is) { return meet_block(is) != 0; }

template <class T, int kTag>
inline constexpr char kSharedType{};
template <class T, int kTag = 0>
T& shared() {
  static_assert(std::is_trivially_default_constructible_v<T> && alignof(T) <= 16);
  return *reinterpret_cast<T*>(shared_object(&kSharedType<T, kTag>, sizeof(T)));
}

inline void warp_sync() { meet_warp(0); }
inline std::uint32_t reduce_max(std::uint32_t v) {
  const std::uint64_t* const all = meet_warp(v);
  std::uint64_t most = 0;
  for (int l = 0; l < 32; ++l) most = all[l] > most ? all[l] : most;
  return static_cast<std::uint32_t>(most);
}
inline std::uint32_t reduce_sum(std::uint32_t v) {
  const std::uint64_t* const all = meet_warp(v);
  std::uint64_t sum = 0;
  for (int l = 0; l < 32; ++l) sum += all[l];
  return static_cast<std::uint32_t>(sum);
}
inline std::uint32_t ballot(bool is) {
  const std::uint64_t* const all = meet_warp(is);
  std::uint32_t bits = 0;
  for (int l = 0; l < 32; ++l) bits |= static_cast<std::uint32_t>(all[l]) << l;
  return bits;
}
inline bool any(bool is) { return ballot(is) != 0; }

template <class T>
T shuffle_from(T v, std::uint32_t lane) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  std::uint64_t word = 0;
  std::memcpy(&word, &v, sizeof v);
  const std::uint64_t* const all = meet_warp(word);
  std::memcpy(&v, all + lane, sizeof v);
  return v;
}
template <class T>
T shuffle(T v, std::uint32_t from) {
  return shuffle_from(v, from % 32);
}
template <class T>
T shuffle_up(T v, std::uint32_t by) {
  const std::uint32_t own = here->thread % 32;
  return shuffle_from(v, own >= by ? own - by : own);
}
template <class T>
T shuffle_down(T v, std::uint32_t by) {
  const std::uint32_t own = here->thread % 32;
  return shuffle_from(v, own + by < 32 ? own + by : own);
}
template <class T>
T shuffle_xor(T v, std::uint32_t with) {
  return shuffle_from(v, (here->thread % 32) ^ with);
}

template <class T>
T atomic_add(T* p, std::type_identity_t<T> v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T>
T atomic_or(T* p, std::type_identity_t<T> v) {
  return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}
template <class T>
T atomic_exchange(T* p, std::type_identity_t<T> v) {
  return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}
template <class T>
T atomic_swap_if(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
T atomic_max(T* p, std::type_identity_t<T> v) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T>
T atomic_min(T* p, std::type_identity_t<T> v) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old > v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

template <class T>
T load_acquire(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
T load_relaxed(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);  // acquire, because fence() does nothing here
}
template <class T>
void store_release(T* p, std::type_identity_t<T> v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
inline void fence() {}

inline double square_root(double v) { return __builtin_sqrt(v); }
inline std::uint32_t count_ones(std::uint32_t v) { return static_cast<std::uint32_t>(__builtin_popcount(v)); }
inline std::uint32_t count_ones(std::uint64_t v) {
  return static_cast<std::uint32_t>(__builtin_popcountll(v));
}
inline std::uint32_t count_leading_zeros(std::uint32_t v) {
  return static_cast<std::uint32_t>(__builtin_clz(v));
}
inline std::uint32_t count_leading_zeros(std::uint64_t v) {
  return static_cast<std::uint32_t>(__builtin_clzll(v));
}
inline std::uint32_t count_trailing_zeros(std::uint32_t v) {
  return static_cast<std::uint32_t>(__builtin_ctz(v));
}
inline std::uint32_t count_trailing_zeros(std::uint64_t v) {
  return static_cast<std::uint32_t>(__builtin_ctzll(v));
}

}  // namespace mq::simt
