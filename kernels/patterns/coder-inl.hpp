// The arithmetic of natural and rangefloat, for host and GPU. V is Lanes<T> on the host, and Lane<T> on a GPU
// (kernels/cuda/lane.cuh). natural.hpp and rangefloat.hpp describe the codecs.
#pragma once
#include "kernels/dither-inl.hpp"

// A power of two or 0, at random, with the sign of v. v is finite.
template <class T, class V>
MQ_MATH V dithered_power(const V& v, const V& bits) {
  constexpr T kMost = sizeof(T) == 4 ? static_cast<T>(0x1p127) : static_cast<T>(0x1p1023);
  const V power = cut_at_random<kernels::FloatBits<T>::kMantissa>(v.abs(), bits);
  return power.at_most(V::all(kMost)).bits_or(v.bits_and(V::all(-T{0})));
}

// The codes of one range (range.hpp).
template <class T, class V>
struct RangeCoder {
  using Word = typename V::Bits;
  int bits, drop;
  V most, least, half_least;
  Word before;  // the cut pattern of code 0, if it were one more number
  MQ_MATH RangeCoder(const kernels::FloatRange<T>& format, Word top)
      : bits(format.bits),
        drop(format.drop),
        most(V::all_bits(top << drop)),
        least(V::all_bits((top - format.codes + 1) << drop)),
        half_least(least * V::all(T{0.5})),
        before(top - format.codes) {}

  MQ_MATH Word sign() const { return Word{1} << (bits - 1); }
  // The codes of finite elements, and what they stand for.
  struct Rounded {
    V code, value;
  };
  MQ_MATH Rounded rounded(const V& v) const {
    const V magnitude = v.abs().at_most(most);
    const V pattern = magnitude.not_below(least).bits_add(V::all_bits(Word{1} << (drop - 1)));
    const V code = pattern.bits_right(drop).bits_subtract(V::all_bits(before));
    const V value =
        pattern.bits_and(V::all_bits(~((Word{1} << drop) - 1))).bits_or(v.bits_and(V::all(-T{0})));
    const auto some = magnitude.at_least(half_least);
    const V none = V::all(T{0});
    return {V::select(some, with_sign(code, v), none), V::select(some, value, none)};
  }
  MQ_MATH V with_sign(const V& code, const V& v) const {
    return code.bits_or(v.bits_right(static_cast<int>(8 * sizeof(T)) - bits).bits_and(V::all_bits(sign())));
  }
  // Of lanes that are not finite.
  MQ_MATH V mark_of(const V& v) const {
    return V::select(v.ordered(), with_sign(V::all_bits(sign() - 1), v), V::all_bits(sign()));
  }
  MQ_MATH V value_of(const V& code) const {
    const V number = code.bits_and(V::all_bits(sign() - 1));
    const V finite = number.bits_add(V::all_bits(before)).bits_left(drop);
    const V magnitude = V::select(number.at_least(V::all_bits(sign() - 1)),
                                  V::all(std::numeric_limits<T>::infinity()), finite);
    const V minus = code.bits_left(static_cast<int>(8 * sizeof(T)) - bits).bits_and(V::all(-T{0}));
    const auto some = number.any_bit();
    // minus zero
    const V none = V::select(code.any_bit(), V::all(std::numeric_limits<T>::quiet_NaN()), V::all(T{0}));
    return V::select(some, magnitude.bits_or(minus), none);
  }
};
