// Thirty-two small floats at a time (kernels/small_floats.hpp).
#pragma once
#include "kernels/host/lanes-inl.hpp"

template <class T>
class SmallFloats {
 public:
  using L = Lanes<T>;
  using Bits = typename L::Bits;
  static constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  static constexpr Bits kBias = std::numeric_limits<T>::max_exponent - 1;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);

  explicit MQ_INLINE SmallFloats(const SmallFloat& format)
      : format_(format),
        drop_(kMantissa - format.mantissa),
        least_(L::all(power(format.least()))),
        half_least_(L::all(power(format.least() - 1))),
        // Added to a power of two and taken away, it rounds to `mantissa` bits below that power.
        rounder_(L::all(T{1.5} * power(drop_))),
        most_(L::all(value(format, format.max_code))),
        offset_((kBias - 1 + static_cast<Bits>(static_cast<std::int64_t>(format.least())))
                << format.mantissa) {}

  // 2^exponent, of a normal number.
  static MQ_INLINE T power(int exponent) {
    return std::bit_cast<T>((kBias + static_cast<Bits>(static_cast<std::int64_t>(exponent))) << kMantissa);
  }
  // What a code without its sign stands for.
  static MQ_INLINE T value(const SmallFloat& format, std::uint32_t code) {
    const int shift = kMantissa - format.mantissa;
    const Bits least = (kBias - 1 + static_cast<Bits>(static_cast<std::int64_t>(format.least())))
                       << kMantissa;
    const T normal = std::bit_cast<T>((Bits{code} << shift) + least);
    const T subnormal = normal + normal - power(format.least());
    return subnormal < normal ? subnormal : normal;
  }

  // |v| rounded to the nearest small float, ties to even; magnitudes beyond the greatest become the greatest.
  MQ_INLINE L rounded_magnitude(const L& v) const {
    const L magnitude = v.abs().at_most(most_);
    const L exponent = magnitude.not_below(least_).bits_and(L::all(std::numeric_limits<T>::infinity()));
    const L rounder = exponent * rounder_;
    return (magnitude + rounder) - rounder;
  }
  // The codes of small floats with these magnitudes and the signs of v.
  MQ_INLINE Bytes codes(const L& magnitude, const L& v) const {
    // From the least normal number on, the highest bits of a float are the code, but for an offset. Below it,
    // (magnitude + least) / 2 has them.
    const L aligned = magnitude.not_below(magnitude * L::all(T{0.5}) + half_least_);
    const L code = aligned.bits_right(drop_).bits_add(L::all_bits(~offset_ + 1));
    const L sign = v.bits_right(static_cast<int>(8 * sizeof(T)) - format_.bits());
    return code.bits_or(sign.bits_and(L::all_bits(format_.sign()))).low_bytes();
  }
  MQ_INLINE L values(const Bytes& codes) const {
    const L code = L::of_byte_bits(codes);
    const L normal = code.bits_and(L::all_bits(format_.sign() - 1))
                         .bits_left(drop_)
                         .bits_add(L::all_bits(offset_ << drop_));
    const L magnitude = normal.at_most((normal + normal) - least_);
    return magnitude.bits_or(
        code.bits_left(static_cast<int>(8 * sizeof(T)) - format_.bits()).bits_and(L::all_bits(kSign)));
  }
  static MQ_INLINE L with_sign(const L& magnitude, const L& v) {
    return magnitude.bits_or(v.bits_and(L::all_bits(kSign)));
  }

 private:
  SmallFloat format_;
  int drop_;  // bits of T's mantissa below the small float's
  L least_, half_least_, rounder_, most_;
  Bits offset_;
};
