// What the files of memory rules (kernels/memory/) are written with, on a GPU: lanes, arrays of any
// alignment, and the loop over a tile. Here a group is four elements, which one thread loads at once if the
// address allows it, and a tile is shared out to all threads of the grid. A result that is NaN is the one of
// x86, as everywhere (elements.cuh).
#pragma once

#include "kernels/cuda/elements.cuh"

#ifdef __CUDACC__
#  define MQ_APART __device__ __noinline__  // a function that is called
#else
#  define MQ_APART inline
#endif

namespace mq::kernels::on_gpu {

inline constexpr std::uint32_t kLanes = 4;
template <class T>
using Pack = simt::Pack<T, kLanes>;

// Which elements of a group exist. Only the last group of a tile can have fewer than all.
struct Width {
  std::uint32_t count, bits;
};

// `result` of an operation on a and b. A NaN is the first NaN operand, or the negative default.
template <class T>
MQ_DEVICE T with_nan_of(T result, T a, T b) {
  using simt::bits_as;
  using simt::BitsOf;
  constexpr T kDefault = bits_as<T>(BitsOf<T>::kNan | BitsOf<T>::kSign);
  if (result == result) return result;
  return a != a ? simt::quiet(a) : b != b ? simt::quiet(b) : kDefault;
}

template <class T>
struct Lanes {
  Pack<T> v;

  struct Mask {
    std::uint32_t of;
    MQ_DEVICE std::uint32_t bits() const { return of; }
  };

  static MQ_DEVICE Lanes all(T x) {
    return each([&](std::uint32_t) { return x; });
  }
  friend MQ_DEVICE Lanes operator+(const Lanes& a, const Lanes& b) {
    return each([&](std::uint32_t j) { return with_nan_of(a.v.of[j] + b.v.of[j], a.v.of[j], b.v.of[j]); });
  }
  friend MQ_DEVICE Lanes operator-(const Lanes& a, const Lanes& b) {
    return each([&](std::uint32_t j) { return with_nan_of(a.v.of[j] - b.v.of[j], a.v.of[j], b.v.of[j]); });
  }
  friend MQ_DEVICE Lanes operator*(const Lanes& a, const Lanes& b) {
    return each([&](std::uint32_t j) { return with_nan_of(a.v.of[j] * b.v.of[j], a.v.of[j], b.v.of[j]); });
  }
  // Each lane within [low, high]. No lane is NaN.
  MQ_DEVICE Lanes clamped(const Lanes& low, const Lanes& high) const {
    return each([&](std::uint32_t j) {
      const T raised = v.of[j] > low.v.of[j] ? v.of[j] : low.v.of[j];
      return raised < high.v.of[j] ? raised : high.v.of[j];
    });
  }
  MQ_DEVICE Mask at_least(const Lanes& b) const {  // -0 is at least +0; false for NaN
    return which([&](std::uint32_t j) { return v.of[j] >= b.v.of[j]; });
  }
  MQ_DEVICE Lanes abs() const {
    using Word = typename simt::BitsOf<T>::Word;
    return each([&](std::uint32_t j) {
      return simt::bits_as<T>(simt::bits_as<Word>(v.of[j]) & static_cast<Word>(~simt::BitsOf<T>::kSign));
    });
  }
  MQ_DEVICE Mask finite() const {
    return which([&](std::uint32_t j) { return simt::is_finite(v.of[j]); });
  }
  static MQ_DEVICE Mask mask_of(std::uint32_t bits) { return {bits}; }
  static MQ_DEVICE Lanes select(const Mask& mask, const Lanes& set, const Lanes& clear) {
    return each([&](std::uint32_t j) { return mask.of >> j & 1 ? set.v.of[j] : clear.v.of[j]; });
  }

 private:
  template <class F>
  static MQ_DEVICE Lanes each(const F& f) {
    Lanes lanes;
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kLanes; ++j) lanes.v.of[j] = f(j);
    return lanes;
  }
  template <class F>
  static MQ_DEVICE Mask which(const F& f) {
    std::uint32_t bits = 0;
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kLanes; ++j) bits |= (f(j) ? 1u : 0u) << j;
    return {bits};
  }
};

// Some elements at any address. Apart from the kernels, which would be many times as long with it.
template <class T>
MQ_APART Pack<T> load_some(const std::byte* p, std::uint32_t count) {
  Pack<T> pack;
  MQ_UNROLL(4)
  for (std::uint32_t j = 0; j < kLanes; ++j) pack.of[j] = j < count ? simt::load<T>(p + j * sizeof(T)) : T{0};
  return pack;
}
template <class T>
MQ_APART void store_some(std::byte* p, Pack<T> pack, std::uint32_t count) {
  MQ_UNROLL(4)
  for (std::uint32_t j = 0; j < kLanes; ++j)
    if (j < count) simt::store(p + j * sizeof(T), pack.of[j]);
}

// The elements of an array. Those behind the last are +0.
template <class T, class Byte>
struct Groups {
  Byte* first;

  MQ_DEVICE Lanes<T> get(std::size_t g, Width width) const {
    const std::byte* const at = first + g * kLanes * sizeof(T);
    if (width.count == kLanes && simt::packs<T, kLanes>(at)) return {simt::load_pack<T, kLanes>(at)};
    return {load_some<T>(at, width.count)};
  }
  MQ_DEVICE void put(std::size_t g, const Lanes<T>& lanes, Width width) const {
    std::byte* const at = first + g * kLanes * sizeof(T);
    if (width.count == kLanes && simt::packs<T, kLanes>(at))
      simt::store_pack(at, lanes.v);
    else
      store_some(at, lanes.v, width.count);
  }
  // A GPU hides the latency by other threads.
  MQ_DEVICE void ask(std::size_t) const {}
  MQ_DEVICE void ask_next(std::size_t, std::size_t) const {}
};
template <class T>
MQ_DEVICE Groups<T, const std::byte> array_at(const void* p) {
  return {static_cast<const std::byte*>(p)};
}
template <class T>
MQ_DEVICE Groups<T, std::byte> array_at(void* p) {
  return {static_cast<std::byte*>(p)};
}

// Calls f(group, width) for this thread's groups of n elements.
template <class F>
MQ_DEVICE void for_each_group(std::size_t n, F&& f) {
  const std::size_t step = std::size_t{simt::blocks()} * simt::threads();
  for (std::size_t g = std::size_t{simt::block()} * simt::threads() + simt::thread(); g * kLanes < n;
       g += step) {
    const auto count = static_cast<std::uint32_t>(simt::smaller<std::size_t>(kLanes, n - g * kLanes));
    f(g, Width{count, (1u << count) - 1});
  }
}

}  // namespace mq::kernels::on_gpu
