// The C++ type of each element type: float, double, and the two half types as bit patterns, which arithmetic
// converts from and to double. They do not use the conversions of kernels/ on purpose, because the check of a
// result must not share its mistakes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/codec.hpp"

namespace mq::bench {

// A format of 16 bits: the IEEE 754 binary interchange format with this exponent field, or bfloat16.
template <int kExponentBits>
class Half {
 public:
  static constexpr int kFractionBits = 15 - kExponentBits;
  static constexpr int kLeastExponent = 2 - (1 << (kExponentBits - 1));  // of a normal number

  Half() = default;
  explicit Half(double x) : bits_(round(x)) {}  // to nearest, ties to even
  static Half from_bits(std::uint16_t bits) {
    Half h;
    h.bits_ = bits;
    return h;
  }
  std::uint16_t bits() const { return bits_; }
  explicit operator double() const {
    const int exponent = (bits_ & 0x7fff) >> kFractionBits, fraction = bits_ & (kHidden - 1);
    double magnitude =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    if (exponent != kEndExponent)
      magnitude = std::ldexp(exponent == 0 ? fraction : kHidden + fraction,
                             std::max(exponent, 1) - 1 + kLeastExponent - kFractionBits);
    return bits_ >> 15 != 0 ? -magnitude : magnitude;
  }

 private:
  static constexpr int kHidden = 1 << kFractionBits;
  static constexpr int kEndExponent = (1 << kExponentBits) - 1;  // of infinities and NaN
  static constexpr int kInfinity = kEndExponent << kFractionBits;

  static std::uint16_t round(double x) {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    int magnitude = 0;
    if (std::isnan(x)) {
      magnitude = kInfinity + kHidden / 2;
    } else if (std::isinf(x)) {
      magnitude = kInfinity;
    } else if (x != 0) {
      const int exponent = std::max(std::ilogb(x), kLeastExponent);
      // In units of the last place of this exponent. A number that rounds up to the next power of two carries
      // into the exponent field, as it should.
      const double units = std::nearbyint(std::ldexp(std::abs(x), kFractionBits - exponent));
      const int above = std::min(exponent - kLeastExponent, kEndExponent);
      magnitude =
          std::min((above << kFractionBits) + static_cast<int>(std::min(units, 2.0 * kHidden)), kInfinity);
    }
    return static_cast<std::uint16_t>(sign | magnitude);
  }

  std::uint16_t bits_ = 0;
};
using Float16 = Half<5>;
using Bfloat16 = Half<8>;

// The largest relative error of rounding a number in the normal range, and the distance between subnormal
// numbers.
template <class T>
struct Rounding {
  static constexpr double unit = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  static constexpr double least = static_cast<double>(std::numeric_limits<T>::denorm_min());
};
template <int kExponentBits>
struct Rounding<Half<kExponentBits>> {
  using Format = Half<kExponentBits>;
  static constexpr double unit = 0.5 / (1 << Format::kFractionBits);
  static inline const double least = std::ldexp(1.0, Format::kLeastExponent - Format::kFractionBits);
};

// Calls f(T{}) with the C++ type of the element.
template <class F>
decltype(auto) with_type(kernels::Element element, const F& f) {
  switch (element) {
    case kernels::Element::f64: return f(double{});
    case kernels::Element::f16: return f(Float16{});
    case kernels::Element::bf16: return f(Bfloat16{});
    case kernels::Element::f32: break;
  }
  return f(float{});
}

}  // namespace mq::bench
