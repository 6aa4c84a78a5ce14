// The arithmetic of bf16(round=stochastic), for host and GPU. V is Lanes<T> on the host, and Lane<T> on a
// GPU.
#pragma once
#include "kernels/dither-inl.hpp"

// A bfloat16, at random. v is finite. Doubles that are no normal floats are rounded twice.
template <class T, class V>
MQ_MATH V dithered_bf16(const V& v, const V& bits) {
  const V most = V::all(static_cast<T>(0x1.fep127));
  return cut_at_random<kernels::FloatBits<T>::kMantissa - 7>(v, bits).clamped(V::all(T{0}) - most, most);
}
