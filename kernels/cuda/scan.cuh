// Prefix sums and maxima of integers over the threads of a block. All threads must call each of these
// functions.
#pragma once

#include "kernels/cuda/simt.cuh"

namespace mq::simt {

// One element per warp.
template <class T>
struct WarpSlots {
  T of[32];
};

// Returns the sum of the values of the threads before this one. `total` becomes the sum of all. Two barriers.
template <class T>
MQ_DEVICE T block_before(T v, T& total) {
  auto& slots = shared<WarpSlots<T>>();
  T of_warp;
  const T in_warp = warp_before(v, of_warp);
  if (lane() == 0) slots.of[warp()] = of_warp;
  barrier();
  const T before = warp_before(lane() < warps() ? slots.of[lane()] : T{0}, total);
  const T of_warps = shuffle(before, warp());
  barrier();
  return of_warps + in_warp;
}
// The same for several values at once, still with two barriers. v becomes the sum of the threads before.
template <class T, std::uint32_t kCount>
MQ_DEVICE void block_before(T (&v)[kCount], T (&total)[kCount]) {
  auto& slots = shared<WarpSlots<T[kCount]>>();
  MQ_UNROLL(kCount)
  for (std::uint32_t i = 0; i < kCount; ++i) {
    T of_warp;
    v[i] = warp_before(v[i], of_warp);
    if (lane() == 0) slots.of[warp()][i] = of_warp;
  }
  barrier();
  MQ_UNROLL(kCount)
  for (std::uint32_t i = 0; i < kCount; ++i)
    v[i] += shuffle(warp_before(lane() < warps() ? slots.of[lane()][i] : T{0}, total[i]), warp());
  barrier();
}
template <class T>
MQ_DEVICE T block_sum(T v) {
  auto& slots = shared<WarpSlots<T>>();
  v = warp_sum(v);
  if (lane() == 0) slots.of[warp()] = v;
  barrier();
  v = warp_sum(lane() < warps() ? slots.of[lane()] : T{0});
  barrier();
  return v;
}
template <class T>
MQ_DEVICE T block_max(T v) {
  auto& slots = shared<WarpSlots<T>>();
  v = warp_max(v);
  if (lane() == 0) slots.of[warp()] = v;
  barrier();
  v = warp_max(lane() < warps() ? slots.of[lane()] : T{0});
  barrier();
  return v;
}

// The maximum over the lanes, or threads, before this one; 0 if there are none.
MQ_DEVICE std::uint32_t warp_greatest_before(std::uint32_t v) {
  std::uint32_t upto = v;
  for (std::uint32_t d = 1; d < 32; d *= 2) {
    const std::uint32_t other = shuffle_up(upto, d);
    if (lane() >= d) upto = greater(upto, other);
  }
  const std::uint32_t before = shuffle_up(upto, 1);
  return lane() == 0 ? 0 : before;
}
MQ_DEVICE std::uint32_t block_greatest_before(std::uint32_t v) {
  auto& slots = shared<WarpSlots<std::uint32_t>>();
  const std::uint32_t in_warp = warp_greatest_before(v);
  const std::uint32_t of_warp = warp_max(v);
  if (lane() == 0) slots.of[warp()] = of_warp;
  barrier();
  const std::uint32_t before = warp_greatest_before(lane() < warps() ? slots.of[lane()] : 0);
  const std::uint32_t of_warps = shuffle(before, warp());
  barrier();
  return greater(of_warps, in_warp);
}

}  // namespace mq::simt
