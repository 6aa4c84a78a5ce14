// The kernel language (simt.cuh) on a GPU, compiled by nvcc.
#pragma once

#include "kernels/cuda/names.hpp"

#define MQ_DEVICE __device__ __forceinline__
#define MQ_PRAGMA(text) _Pragma(#text)
#define MQ_UNROLL(times) MQ_PRAGMA(unroll times)  // before a loop
// C linkage, so that the launcher finds the kernel by its name. blockIdx.y is the number of the run
// (Launch::runs).
#define MQ_KERNEL_BOUNDS(name, Args, ...)                             \
  static_assert(mq::kernels::names::name.text != nullptr);            \
  MQ_DEVICE void name##_run(const Args& args);                        \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__)           \
      name(const __grid_constant__ mq::simt::ArgsOfRuns<Args> args) { \
    name##_run(args.of[blockIdx.y]);                                  \
  }                                                                   \
  MQ_DEVICE void name##_run(const Args& args)
#define MQ_KERNEL(name, Args, threads) MQ_KERNEL_BOUNDS(name, Args, threads)
// Limits the registers so that `blocks` thread blocks fit a multiprocessor.
#define MQ_KERNEL_RESIDENT(name, Args, threads, blocks) MQ_KERNEL_BOUNDS(name, Args, threads, blocks)

namespace mq::simt {

template <class Args>
struct ArgsOfRuns {
  Args of[kernels::most_runs(sizeof(Args))];
};

MQ_DEVICE std::uint32_t thread() { return threadIdx.x; }
MQ_DEVICE std::uint32_t block() { return blockIdx.x; }
MQ_DEVICE std::uint32_t threads() { return blockDim.x; }
MQ_DEVICE std::uint32_t blocks() { return gridDim.x; }

MQ_DEVICE void barrier() { __syncthreads(); }
MQ_DEVICE std::uint32_t barrier_count(bool is) { return static_cast<std::uint32_t>(__syncthreads_count(is)); }
MQ_DEVICE bool barrier_or(bool is) { return __syncthreads_or(is) != 0; }

template <class T, int kTag = 0>
MQ_DEVICE T& shared() {
  __shared__ T value;
  return value;
}
MQ_DEVICE std::byte* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char mq_dynamic_shared[];
  return reinterpret_cast<std::byte*>(mq_dynamic_shared);
}

MQ_DEVICE void warp_sync() { __syncwarp(); }
MQ_DEVICE std::uint32_t ballot(bool is) { return __ballot_sync(0xffffffffu, is); }
MQ_DEVICE bool any(bool is) { return __any_sync(0xffffffffu, is) != 0; }

// CUDA defines the shuffles for its own integer types only.
template <class T>
using ShuffleWord = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;
template <class T>
MQ_DEVICE T shuffle(T v, std::uint32_t from) {
  return __builtin_bit_cast(
      T, __shfl_sync(0xffffffffu, __builtin_bit_cast(ShuffleWord<T>, v), static_cast<int>(from)));
}
// Lanes without a lane at this distance keep their own value.
template <class T>
MQ_DEVICE T shuffle_up(T v, std::uint32_t by) {
  return __builtin_bit_cast(T, __shfl_up_sync(0xffffffffu, __builtin_bit_cast(ShuffleWord<T>, v), by));
}
template <class T>
MQ_DEVICE T shuffle_down(T v, std::uint32_t by) {
  return __builtin_bit_cast(T, __shfl_down_sync(0xffffffffu, __builtin_bit_cast(ShuffleWord<T>, v), by));
}
template <class T>
MQ_DEVICE T shuffle_xor(T v, std::uint32_t with) {
  return __builtin_bit_cast(
      T, __shfl_xor_sync(0xffffffffu, __builtin_bit_cast(ShuffleWord<T>, v), static_cast<int>(with)));
}

// One instruction for all steps of a warp_max or warp_sum.
MQ_DEVICE std::uint32_t reduce_max(std::uint32_t v) { return __reduce_max_sync(0xffffffffu, v); }
MQ_DEVICE std::uint32_t reduce_sum(std::uint32_t v) { return __reduce_add_sync(0xffffffffu, v); }

// T: std::uint32_t or std::uint64_t.
template <class T>
using AtomicWord = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;
template <class T>
MQ_DEVICE AtomicWord<T>* atomic_word(T* p) {
  static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  return reinterpret_cast<AtomicWord<T>*>(p);
}
template <class T>
MQ_DEVICE T atomic_add(T* p, std::type_identity_t<T> v) {
  return atomicAdd(atomic_word(p), static_cast<AtomicWord<T>>(v));
}
template <class T>
MQ_DEVICE T atomic_max(T* p, std::type_identity_t<T> v) {
  return atomicMax(atomic_word(p), static_cast<AtomicWord<T>>(v));
}
template <class T>
MQ_DEVICE T atomic_min(T* p, std::type_identity_t<T> v) {
  return atomicMin(atomic_word(p), static_cast<AtomicWord<T>>(v));
}
template <class T>
MQ_DEVICE T atomic_or(T* p, std::type_identity_t<T> v) {
  return atomicOr(atomic_word(p), static_cast<AtomicWord<T>>(v));
}
template <class T>
MQ_DEVICE T atomic_exchange(T* p, std::type_identity_t<T> v) {
  return atomicExch(atomic_word(p), static_cast<AtomicWord<T>>(v));
}
template <class T>  // *p = v if it was `expected`
MQ_DEVICE T atomic_swap_if(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return atomicCAS(atomic_word(p), static_cast<AtomicWord<T>>(expected), static_cast<AtomicWord<T>>(v));
}

// A thread that reads a stored value with load_acquire sees everything written before its store_release, also
// by threads that the storing one met at a barrier before. For all threads of this GPU: T is std::uint32_t or
// std::uint64_t.
template <class T>
MQ_DEVICE T load_acquire(const T* p) {
  T v;
  if constexpr (sizeof(T) == 4)
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  else
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
// For polling: call fence() before using the data that the value announces.
template <class T>
MQ_DEVICE T load_relaxed(const T* p) {
  T v;
  if constexpr (sizeof(T) == 4)
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  else
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
template <class T>
MQ_DEVICE void store_release(T* p, std::type_identity_t<T> v) {
  if constexpr (sizeof(T) == 4)
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
  else
    asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// Orders what this thread did before with what it does after, for all threads of this GPU. Weaker than
// __threadfence, which also orders all fences of all threads among each other.
MQ_DEVICE void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
MQ_DEVICE void pause() {
#if __CUDA_ARCH__ >= 700
  __nanosleep(20);
#endif
}

MQ_DEVICE double square_root(double v) { return __dsqrt_rn(v); }
MQ_DEVICE std::uint32_t count_ones(std::uint32_t v) { return static_cast<std::uint32_t>(__popc(v)); }
MQ_DEVICE std::uint32_t count_ones(std::uint64_t v) { return static_cast<std::uint32_t>(__popcll(v)); }
MQ_DEVICE std::uint32_t count_leading_zeros(std::uint32_t v) {
  return static_cast<std::uint32_t>(__clz(static_cast<int>(v)));
}
MQ_DEVICE std::uint32_t count_leading_zeros(std::uint64_t v) {
  return static_cast<std::uint32_t>(__clzll(static_cast<long long>(v)));
}
MQ_DEVICE std::uint32_t count_trailing_zeros(std::uint32_t v) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(v)) - 1);
}
MQ_DEVICE std::uint32_t count_trailing_zeros(std::uint64_t v) {
  return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(v)) - 1);
}

}  // namespace mq::simt
