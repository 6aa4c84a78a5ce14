// The arithmetic of the blockwise integers and of terngrad, for host and GPU: how an element becomes a code,
// and a code an element. V is Lanes<T> on the host, and Lane<T> on a GPU (kernels/cuda/lane.cuh).
#pragma once

// The value of q steps from the middle. `centred`: the middle is +0, and the step more than 0 or q no -0.
template <class V>
MQ_MATH V dequantize(const V& q, const V& step, const V& middle, bool centred) {
  const V distance = q * step;
  if (centred) return distance;
  return distance + middle;
}

// What encode needs of a quantizer.
template <class V>
struct Rounding {
  V step, middle, inverse, low, high, rounder;

  // zero: the code of the middle.
  template <class T>
  MQ_MATH Rounding(const kernels::integers::Quantizer<T>& to, int limit, int zero)
      : step(V::all(to.step)),
        middle(V::all(to.middle)),
        inverse(V::all(to.inverse())),
        low(V::all(static_cast<T>(-limit))),
        high(V::all(static_cast<T>(limit))),
        rounder(V::all(kernels::integers::rounder<T>(zero))) {}

  // How many steps an element is from the middle. kMiddle: the middle may be another number than +0.
  template <bool kMiddle>
  MQ_MATH V steps(const V& v) const {
    if constexpr (kMiddle)
      return (v - middle) * inverse;
    else
      return v * inverse;
  }
  // Rounded to the nearest integer, ties to even. The lowest byte of the result's bit pattern is the code.
  MQ_MATH V quantize(const V& steps) const { return steps + rounder; }
  // Rounded up or down at random, by a number from -1/2 to 1/2 (Noise::at).
  MQ_MATH V quantize(const V& steps, const V& noise) const {
    return quantize((steps + noise).clamped(low, high));
  }
  // What a result of quantize decodes to.
  template <bool kMiddle>
  MQ_MATH V decoded(const V& quantized) const {
    return dequantize(quantized - rounder, step, middle, !kMiddle);
  }
};
