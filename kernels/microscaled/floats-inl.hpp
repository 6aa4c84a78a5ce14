// Thirty-two small floats at a time (kernels/microscaled/microscaled.hpp).
#pragma once
#include "kernels/host/lanes-inl.hpp"

template <class T>
class SmallFloats {
 public:
  using L = Lanes<T>;
  using N = Native<T>;
  using Bits = typename L::Bits;
  static constexpr int kMantissa = FloatBits<T>::kMantissa;
  static constexpr Bits kBias = FloatBits<T>::kBias;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);

  // What elements are rounded with, in units of a power of two.
  struct Unit {
    L least, most, rounder;
  };
  // Rounded elements, and the codes of their magnitudes as the lowest bytes of bit patterns.
  struct Rounded {
    L value, code;
  };

  explicit MQ_INLINE SmallFloats(const SmallFloat& format)
      : format_(format),
        drop_(format.dropped<T>()),
        least_(L::all(FloatBits<T>::power(format.least()))),
        one_{least_, L::all(format.magnitude<T>(format.max_code)), rounder(L::all_bits(kBias))},
        offset_(format.offset<T>()),
        halves_(format.max_code >> format.mantissa < (1u << kHalfExponent) - 1),
        scale_(L::all(FloatBits<T>::power((1 << (kHalfExponent - 1)) - (1 << (format.exponent - 1))))) {}

  // The unit 1, and the unit with this exponent field.
  MQ_INLINE const Unit& one() const { return one_; }
  MQ_INLINE Unit unit(const L& field) const {
    const L power = field.bits_left(kMantissa);
    return {one_.least * power, one_.most * power, rounder(field)};
  }
  // Whether units with this exponent field can be rounded with: the least normal number is one of T, and no
  // rounder overflows.
  MQ_INLINE int least_field() const { return 1 - format_.least(); }
  MQ_INLINE int greatest_field() const { return 2 * static_cast<int>(kBias) - format_.greatest() - drop_; }

  // Elements rounded to the nearest small float, ties to even; magnitudes beyond the greatest become the
  // greatest.
  MQ_INLINE Rounded rounded(const L& v, const Unit& unit) const {
    const auto sign_bit = N::all(-T{0}), exponent_bits = N::all(std::numeric_limits<T>::infinity());
    Rounded to;
    // One register after the other, because AVX2 has not enough for several steps of all lanes.
    for (int i = 0; i < L::kRegs; ++i) {
      const auto magnitude = N::least(N::abs(v.r[i]), unit.most.r[i]);
      const auto power = N::bits_and(N::greatest(magnitude, unit.least.r[i]), exponent_bits);
      // The sum's last bit is the small float's last bit. So the sum is rounded, and its lowest bits are the
      // code's mantissa. The rounder's lowest bits make up for the bias of the exponent.
      const auto rounder = N::mul(power, unit.rounder.r[i]), sum = N::add(magnitude, rounder);
      to.value.r[i] = N::bits_or(N::sub(sum, rounder), N::bits_and(v.r[i], sign_bit));
      to.code.r[i] = N::bits_add(sum, N::bits_right(power, drop_));
    }
    return to;
  }
  // bits: of the format, which callers know as a constant.
  static MQ_INLINE Bytes codes(const Rounded& rounded, int bits) {
    return with_top_bits(rounded.code.low_bytes(), rounded.value.sign_bytes(), bits - 1);
  }
  MQ_INLINE L values(const Bytes& codes) const {
    if constexpr (L::kConvertsHalves)
      if (halves_) [[likely]]
        return L::of_small_halves(codes, format_.exponent, format_.mantissa) * scale_;
    const L code = L::of_byte_bits(codes);
    const L normal = code.bits_and(L::all_bits(format_.sign() - 1))
                         .bits_left(drop_)
                         .bits_add(L::all_bits(offset_ << drop_));
    const L magnitude = normal.at_most((normal + normal) - least_);
    return magnitude.bits_or(
        code.bits_left(static_cast<int>(8 * sizeof(T)) - format_.bits()).bits_and(L::all_bits(kSign)));
  }

 private:
  static constexpr int kHalfExponent = 5;

  // Added to a magnitude and taken away, it rounds to `mantissa` bits below the power of two that it is
  // multiplied by.
  MQ_INLINE L rounder(const L& field) const {
    const L bias = field.bits_add(L::all_bits(static_cast<Bits>(static_cast<std::int64_t>(format_.least()))))
                       .bits_left(format_.mantissa);
    return L::all_bits(std::bit_cast<Bits>(T{1.5} * FloatBits<T>::power(drop_)) + 256)
        .bits_subtract(bias.bits_and(L::all_bits(0xff)));
  }

  SmallFloat format_;
  int drop_;  // bits of T's mantissa below the small float's
  L least_;
  Unit one_;
  Bits offset_;
  // Whether the codes, with zeros in the bits that halves have more, are finite halves; and what then makes
  // them the numbers.
  bool halves_;
  L scale_;
};
