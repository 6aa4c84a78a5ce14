// The codes of one range (kernels/patterns/range.hpp), in registers. patterns/rangefloat.hpp describes them.
#pragma once
#include "kernels/host/lanes-inl.hpp"

template <class T>
struct RangeCoder {
  using L = Lanes<T>;
  using Word = typename L::Bits;
  int bits, drop;
  L most, least, half_least;
  Word before;  // the cut pattern of code 0, if it were one more number
  MQ_INLINE RangeCoder(const FloatRange<T>& format, Word top)
      : bits(format.bits),
        drop(format.drop),
        most(L::all_bits(top << drop)),
        least(L::all_bits((top - format.codes + 1) << drop)),
        half_least(least * L::all(T{0.5})),
        before(top - format.codes) {}

  MQ_INLINE Word sign() const { return Word{1} << (bits - 1); }
  // The codes of finite elements, and what they stand for.
  struct Rounded {
    L code, value;
  };
  MQ_INLINE Rounded rounded(const L& v) const {
    const L magnitude = v.abs().at_most(most);
    const L pattern = magnitude.not_below(least).bits_add(L::all_bits(Word{1} << (drop - 1)));
    const L code = pattern.bits_right(drop).bits_subtract(L::all_bits(before));
    const L value =
        pattern.bits_and(L::all_bits(~((Word{1} << drop) - 1))).bits_or(v.bits_and(L::all(-T{0})));
    const auto some = magnitude.at_least(half_least);
    const L none = L::all(T{0});
    return {L::select(some, with_sign(code, v), none), L::select(some, value, none)};
  }
  MQ_INLINE L with_sign(const L& code, const L& v) const {
    return code.bits_or(v.bits_right(static_cast<int>(8 * sizeof(T)) - bits).bits_and(L::all_bits(sign())));
  }
  // Of lanes that are not finite.
  MQ_INLINE L mark_of(const L& v) const {
    return L::select(v.ordered(), with_sign(L::all_bits(sign() - 1), v), L::all_bits(sign()));
  }
  MQ_INLINE L value_of(const L& code) const {
    const L number = code.bits_and(L::all_bits(sign() - 1));
    const L finite = number.bits_add(L::all_bits(before)).bits_left(drop);
    const L magnitude = L::select(number.at_least(L::all_bits(sign() - 1)),
                                  L::all(std::numeric_limits<T>::infinity()), finite);
    const L minus = code.bits_left(static_cast<int>(8 * sizeof(T)) - bits).bits_and(L::all(-T{0}));
    const auto some = number.any_bit();
    // minus zero
    const L none = L::select(code.any_bit(), L::all(std::numeric_limits<T>::quiet_NaN()), L::all(T{0}));
    return L::select(some, magnitude.bits_or(minus), none);
  }
};
