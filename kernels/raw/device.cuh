// The kernels of raw.
#pragma once

#include "kernels/cuda/dense.cuh"

namespace mq::simt {

template <class T>
struct RawElement {
  using Code = T;
  static constexpr bool kOverflows = false;
  static MQ_DEVICE Code put(T v) { return v; }
  static MQ_DEVICE T get(Code c) { return c; }
};

}  // namespace mq::simt

MQ_DENSE_KERNELS(raw_f32, float, RawElement<float>)
MQ_DENSE_KERNELS(raw_f64, double, RawElement<double>)
