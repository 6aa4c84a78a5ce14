// The kernels of bf16 and f16.
#pragma once

#include "kernels/halves/blocks.cuh"

namespace mq::simt {

template <class Half, class T>
struct HalfElement {
  using Code = std::uint16_t;
  static constexpr bool kOverflows = Half::kOverflows;
  static MQ_DEVICE Code put(T v) { return Half::from(as_float(v)); }
  static MQ_DEVICE T get(Code c) { return from_float<T>(Half::to(c)); }
};

}  // namespace mq::simt

MQ_DENSE_KERNELS(bf16_f32, float, HalfElement<mq::simt::Bf16Code, float>)
MQ_DENSE_KERNELS(bf16_f64, double, HalfElement<mq::simt::Bf16Code, double>)
MQ_DENSE_KERNELS(f16_f32, float, HalfElement<mq::simt::F16Code, float>)
MQ_DENSE_KERNELS(f16_f64, double, HalfElement<mq::simt::F16Code, double>)
