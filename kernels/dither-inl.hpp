// Rounding at random of bit patterns, for host and GPU. V is Lanes<T> on the host, and Lane<T> on a GPU
// (kernels/cuda/lane.cuh).
#pragma once

// v without the lowest kDropped bits of its mantissa. Its magnitude is rounded up or down at random, by a
// number `bits` from 0 to 2^16 - 1 (Noise::bits_at), so that the mean is v within 2^-16 of the distance of
// the two values. Beyond the greatest number with so short a mantissa it becomes infinite.
template <int kDropped, class V>
MQ_MATH V cut_at_random(const V& v, const V& bits) {
  constexpr auto kKept = ~((typename V::Bits{1} << kDropped) - 1);
  return v.bits_add(bits.bits_left(kDropped - 16)).bits_and(V::all_bits(kKept));
}
