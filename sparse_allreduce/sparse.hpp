// Basic types of sparse reductions: operations, element types, traffic counters. A sparse vector is a
// strictly ascending list of indices in [0, 2^63), and for each index `stride` values of one element type, in
// the order of the indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/bitmaps.hpp"

namespace mq::sparse {

using Op = kernels::Fold;

// An operation as a type.
//
// identity() is neutral in every bit, so code needs no branch between "nothing yet" and "a value". (For sums
// it is -0: -0 + -0 is -0, but +0 would turn -0 into +0.) absent() is the result where no rank contributed.
// NaN wins over every value, in min and max too.
//
// Arguments are in the order of the ranks. Of two NaNs, min and max keep the first. For a sum the compiler
// may swap the terms, so it may keep either.
struct Sum {
  static constexpr Op kFold = Op::sum;
  template <class T>
  static constexpr T identity() {
    return -T{0};
  }
  template <class T>
  static constexpr T absent() {
    return T{0};
  }
  template <class T>
  static constexpr T apply(T a, T b) {
    return a + b;
  }
};
struct Min {
  static constexpr Op kFold = Op::min;
  template <class T>
  static constexpr T identity() {
    return std::numeric_limits<T>::infinity();
  }
  template <class T>
  static constexpr T absent() {
    return identity<T>();
  }
  template <class T>
  static constexpr T apply(T a, T b) {
    return b < a || b != b ? (a != a ? a : b) : a;
  }
};
struct Max {
  static constexpr Op kFold = Op::max;
  template <class T>
  static constexpr T identity() {
    return -std::numeric_limits<T>::infinity();
  }
  template <class T>
  static constexpr T absent() {
    return identity<T>();
  }
  template <class T>
  static constexpr T apply(T a, T b) {
    return b > a || b != b ? (a != a ? a : b) : a;
  }
};

// Calls f.template operator()<T, O>() with the types of an element (f32 or f64) and an operation.
template <class F>
decltype(auto) dispatch(kernels::Element element, Op op, const F& f) {
  const auto with = [&]<class T>() -> decltype(auto) {
    switch (op) {
      case Op::min: return f.template operator()<T, Min>();
      case Op::max: return f.template operator()<T, Max>();
      case Op::sum: break;
    }
    return f.template operator()<T, Sum>();
  };
  return element == kernels::Element::f64 ? with.template operator()<double>()
                                          : with.template operator()<float>();
}

// The values of one index: `stride` of them side by side.
struct Entry {
  kernels::Element element = kernels::Element::f32;  // or f64
  Op op = Op::sum;
  std::size_t stride = 1;
  std::size_t bytes() const { return stride * kernels::element_bytes(element); }
};

// The bitmap functions for the best instruction set of this processor.
inline const kernels::BitmapOps& bitmap_ops(kernels::Element element = kernels::Element::f32) {
  static const kernels::Isa isa = kernels::best_isa();
  return kernels::bitmap_ops(element, isa);
}

}  // namespace mq::sparse
