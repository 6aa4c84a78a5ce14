// One element of a GPU's thread, with the operations of the host's Lanes (kernels/host/lanes-inl.hpp) under
// the same names. So element math is written once, over a type V: `-inl.hpp` files that have MQ_MATH
// functions, such as kernels/integers/rounding-inl.hpp, are compiled with V = Lanes<T> for each instruction
// set of the host, and with V = Lane<T> here. An operation that is missing is added here.
#pragma once

#include "kernels/cuda/elements.cuh"

namespace mq::simt {

template <class T>
struct Lane {
  using Element = T;
  using Bits = typename BitsOf<T>::Word;
  using Mask = bool;
  T v;

  static MQ_DEVICE Lane all(T x) { return {x}; }
  static MQ_DEVICE Lane all_bits(Bits bits) { return {bits_as<T>(bits)}; }
  MQ_DEVICE Bits bits() const { return bits_as<Bits>(v); }

  friend MQ_DEVICE Lane operator+(Lane a, Lane b) { return {a.v + b.v}; }
  friend MQ_DEVICE Lane operator-(Lane a, Lane b) { return {a.v - b.v}; }
  friend MQ_DEVICE Lane operator*(Lane a, Lane b) { return {a.v * b.v}; }
  MQ_DEVICE Lane at_most(Lane high) const { return {smaller(v, high.v)}; }
  MQ_DEVICE Lane not_below(Lane low) const { return {greater(v, low.v)}; }
  MQ_DEVICE Lane clamped(Lane low, Lane high) const { return not_below(low).at_most(high); }

  MQ_DEVICE Lane bits_right(int n) const { return all_bits(bits() >> n); }
  MQ_DEVICE Lane bits_left(int n) const { return all_bits(bits() << n); }
  MQ_DEVICE Lane bits_and(Lane b) const { return all_bits(bits() & b.bits()); }
  MQ_DEVICE Lane bits_or(Lane b) const { return all_bits(bits() | b.bits()); }
  MQ_DEVICE Lane bits_add(Lane b) const { return all_bits(bits() + b.bits()); }
  MQ_DEVICE Lane bits_subtract(Lane b) const { return all_bits(bits() - b.bits()); }
  MQ_DEVICE Lane abs() const { return all_bits(bits() & ~BitsOf<T>::kSign); }

  MQ_DEVICE Mask at_least(Lane b) const { return v >= b.v; }  // -0 is at least +0; false for NaN
  MQ_DEVICE Mask any_bit() const { return bits() != 0; }      // false only for +0
  MQ_DEVICE Mask ordered() const { return v == v; }           // not NaN
  static MQ_DEVICE Lane select(Mask mask, Lane set, Lane clear) { return mask ? set : clear; }
};

}  // namespace mq::simt
