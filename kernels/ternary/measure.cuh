// Measures tau for threshold on a device; see Threshold::measure. It reads the vector twice and makes a
// histogram of 11 bits of the magnitudes each time. The histograms are counts, so the result equals the
// host's.
#pragma once

#include "kernels/sparse/block.cuh"

namespace mq::kernels::cuda {

MQ_DEVICE void measure_begin(const MeasureArgs& a) {
  for (std::uint32_t i = thread(); i < 2 * kMeasureBins; i += threads()) a.state->count[i] = 0;
  if (thread() != 0) return;
  a.state->prefix = 0;
  a.state->k = a.k;
  a.state->none = 0;
}

template <class T>
MQ_HD constexpr std::uint32_t measure_shift(std::uint32_t level) {
  return static_cast<std::uint32_t>(8 * sizeof(T)) - 1 - 11 * level;
}

template <class T>
MQ_DEVICE void measure_count(const MeasureArgs& a) {
  auto* const bins = reinterpret_cast<std::uint32_t*>(dynamic_shared());
  for (std::uint32_t i = thread(); i < kMeasureBins; i += threads()) bins[i] = 0;
  barrier();
  const std::uint32_t shift = measure_shift<T>(a.level);
  const auto prefix = static_cast<Key<T>>(a.state->prefix);
  const auto add = [&](T v) {
    const Key<T> key = key_of(v) & ~kSignBit<T>;
    if (key >> shift == prefix && key - 1 < kMaxKey<T>)
      atomic_add(bins + static_cast<std::uint32_t>(key >> (shift - 11) & (kMeasureBins - 1)), 1);
  };
  constexpr std::uint32_t kAtOnce = 4;
  const std::uint64_t stride = std::uint64_t{blocks()} * threads();
  std::uint64_t i = std::uint64_t{block()} * threads() + thread();
  for (; i + (kAtOnce - 1) * stride < a.n; i += kAtOnce * stride) {
    T v[kAtOnce];
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kAtOnce; ++j) v[j] = load<T>(a.x + (i + j * stride) * sizeof(T));
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kAtOnce; ++j) add(v[j]);
  }
  for (; i < a.n; i += stride) add(load<T>(a.x + i * sizeof(T)));
  barrier();
  for (std::uint32_t b = thread(); b < kMeasureBins; b += threads())
    if (bins[b] != 0) atomic_add(&a.state->count[a.level * kMeasureBins + b], std::uint64_t{bins[b]});
}

// Finds the bin of the k-th greatest magnitude, or of the smallest if there are fewer than k. Runs as one
// thread block of kMeasureBins / 4 threads.
template <class T>
MQ_DEVICE void measure_take(const MeasureArgs& a) {
  const std::uint64_t* const count = a.state->count + a.level * kMeasureBins;
  constexpr std::uint32_t kEach = 4;
  const std::uint32_t first = kMeasureBins - kEach * thread();  // of this thread: the bins below, downwards
  std::uint64_t sum = 0, all;
  for (std::uint32_t j = 1; j <= kEach; ++j) sum += count[first - j];
  std::uint64_t before = block_before(sum, all);
  const std::uint64_t k = smaller(a.state->k, all), prefix = a.state->prefix;
  const bool none = all == 0 || a.state->none != 0;
  barrier();
  if (none && thread() == 0) a.state->none = 1;
  if (none && thread() == 0 && a.level == 1) *a.tau = 0;
  if (none || before >= k || k > before + sum) return;
  std::uint32_t bin = first;
  for (;;) {
    --bin;
    if (k <= before + count[bin]) break;
    before += count[bin];
  }
  a.state->prefix = prefix << 11 | bin;
  a.state->k = k - before;
  if (a.level == 1)
    *a.tau = static_cast<double>(
        magnitude_of<T>(static_cast<Key<T>>((prefix << 11 | bin) << measure_shift<T>(2))));
}

}  // namespace mq::kernels::cuda
