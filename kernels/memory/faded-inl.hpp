// State that a memory rule multiplies by a number below 1 in each call, as decay and momentum do.
//
// Without this file such state reaches the subnormal numbers and stays there: 0.9 times the least of them is
// rounded to that number again. Processors take many times as long for subnormal numbers. So a product that
// is not greater than the least normal number of its type becomes +0. NaN stays NaN.
#pragma once
#include "kernels/host/memory-inl.hpp"

template <class T>
struct Faded {
  Lanes<T> factor, most;  // a product whose magnitude is not above `most` becomes 0

  // 0 <= by <= 1. By 1 nothing changes, so nothing becomes 0.
  explicit MQ_RULE Faded(double by)
      : factor(Lanes<T>::all(static_cast<T>(by))), most(Lanes<T>::all(by < 1 ? least_normal() : T{-1})) {}
  __attribute__((always_inline)) MQ_RULE Lanes<T> operator()(const Lanes<T>& v) const {
    const Lanes<T> product = v * factor;
    return Lanes<T>::select(most.at_least(product.abs()), Lanes<T>::all(T{0}), product);
  }

 private:
  static constexpr MQ_RULE T least_normal() { return static_cast<T>(sizeof(T) == 4 ? 0x1p-126 : 0x1p-1022); }
};
