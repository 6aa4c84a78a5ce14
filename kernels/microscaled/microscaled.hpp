// Floating-point numbers of 4 to 8 bits: sign, exponent, mantissa, from the highest bit to the lowest, with
// subnormal numbers. Host and GPU rows share this file. OCP Microscaling Formats (MX) 1.0, section 5.3, has
// the formats by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/codec.hpp"
#include "kernels/float_bits.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels {

struct SmallFloat {
  int exponent, mantissa;  // bits of each
  std::uint32_t
      max_code;  // of the greatest finite magnitude; codes above mean NaN or Inf and are not written
  MQ_HD constexpr int bits() const { return 1 + exponent + mantissa; }
  MQ_HD constexpr std::uint32_t sign() const { return 1u << (exponent + mantissa); }
  // The exponents of the least and of the greatest normal number.
  MQ_HD constexpr int least() const { return 2 - (1 << (exponent - 1)); }
  MQ_HD constexpr int greatest() const { return static_cast<int>(max_code >> mantissa) - 1 + least(); }
  // Bits that a mantissa of T has more.
  template <class T>
  MQ_HD constexpr int dropped() const {
    return FloatBits<T>::kMantissa - mantissa;
  }
  // A code of a normal number plus this is the number's bit pattern, without the dropped bits.
  template <class T>
  MQ_HD constexpr typename FloatBits<T>::Word offset() const {
    using Word = typename FloatBits<T>::Word;
    return (FloatBits<T>::kBias - 1 + static_cast<Word>(static_cast<std::int64_t>(least()))) << mantissa;
  }
  // What a code without its sign stands for.
  template <class T>
  MQ_HD constexpr T magnitude(std::uint32_t code) const {
    const T normal = __builtin_bit_cast(T, (code + offset<T>()) << dropped<T>());
    const T subnormal = normal + normal - FloatBits<T>::power(least());
    return subnormal < normal ? subnormal : normal;
  }
  constexpr bool operator==(const SmallFloat&) const = default;
};

// Inf is S.11111.00 in E5M2, NaN S.11111.{01,10,11}; E4M3 has NaN, S.1111.111, and no Inf; the others have
// neither.
inline constexpr SmallFloat kE5M2{5, 2, 0x7b}, kE4M3{4, 3, 0x7e}, kE3M2{3, 2, 0x1f}, kE2M3{2, 3, 0x1f},
    kE2M1{2, 1, 0x7};

// The formats of the codecs, by the positions of their parameters.
MQ_HD constexpr SmallFloat mxfp8_format(const Params& p) { return p.value[0] == 0 ? kE4M3 : kE5M2; }
MQ_HD constexpr SmallFloat mxfp6_format(const Params& p) { return p.value[0] == 0 ? kE2M3 : kE3M2; }
MQ_HD constexpr SmallFloat mxfp4_format(const Params&) { return kE2M1; }
// All codes are numbers.
MQ_HD constexpr SmallFloat minifloat_format(const Params& p) {
  const int exponent = static_cast<int>(p.value[0]), mantissa = static_cast<int>(p.value[1]);
  return {exponent, mantissa, (1u << (exponent + mantissa)) - 1};
}

// How blocks of small floats that share a power of two are cut (OCP Microscaling): 8 groups of 32 elements,
// first their scales, then their codes. A scale is the exponent field of a power of two, or kMarked: then the
// codes are marks.
template <class T>
struct Microscale {
  using Scale = std::conditional_t<sizeof(T) == 4, std::uint8_t, std::uint16_t>;
  static constexpr Scale kMarked = static_cast<Scale>(~Scale{0});
  static constexpr std::size_t kBlock = 256;
  // Whether encode can have written this scale. kMarked is out of this range: callers take it first.
  MQ_HD static constexpr bool in_range(Scale scale, const SmallFloat& format) {
    return static_cast<int>(scale) + format.greatest() <= 2 * static_cast<int>(FloatBits<T>::kBias);
  }
  MQ_HD static constexpr std::size_t group_bytes(const SmallFloat& format) {
    return 4 * static_cast<std::size_t>(format.bits());
  }
  MQ_HD static constexpr std::size_t wire_bytes(const SmallFloat& format, std::size_t n) {
    return (n + 31) / 32 * (sizeof(Scale) + group_bytes(format));
  }
};
// How codec nvfp4 cuts a vector: blocks with a unit, then a byte of scale for each 16 elements, an even
// number of them, then the codes.
template <class T>
struct NvFp4Wire {
  static constexpr std::size_t kBlock = 1024, kGroup = 32,
                               kCodeBytes = 16;  // of a group, which has two scales
  static constexpr std::uint8_t kMarked = 0x7f;
  static constexpr T kTiny = static_cast<T>(sizeof(T) == 4 ? 0x1p-107 : 0x1p-1000);
  static constexpr T kMostCode = 6, kMostScale = 448;
  MQ_HD static constexpr std::size_t groups(std::size_t n) { return (n + kGroup - 1) / kGroup; }
  MQ_HD static constexpr std::size_t bytes(std::size_t n) {
    return (n + kBlock - 1) / kBlock * sizeof(T) + groups(n) * (2 + kCodeBytes);
  }
  // Whether the greatest value of a block with this unit is a number of T.
  MQ_HD static constexpr bool in_range(T unit) { return is_finite(kMostScale * unit * kMostCode); }
  // The unit of a block with this greatest finite magnitude.
  MQ_HD static constexpr T unit_of(T greatest) {
    const T unit = greatest < kTiny ? T{0} : greatest / (kMostCode * kMostScale);
    return in_range(unit) ? unit : unit * static_cast<T>(1 - 0x1p-20);
  }
};

// What a code of an element of a marked group says.
enum class LaneMark : std::uint8_t { kept, nan, above, below };

// keeps: there is a residual, where finite elements stay; they decode to 0. Without a residual they would be
// lost unnoticed, so they decode to NaN.
template <class T>
MQ_HD constexpr std::uint8_t lane_mark(T v, bool keeps) {
  const LaneMark mark = is_finite(v) ? (keeps ? LaneMark::kept : LaneMark::nan)
                        : v != v     ? LaneMark::nan
                        : v > T{0}   ? LaneMark::above
                                     : LaneMark::below;
  return static_cast<std::uint8_t>(mark);
}
MQ_HD constexpr bool is_lane_mark(std::uint32_t code) {
  return code <= static_cast<std::uint32_t>(LaneMark::below);
}
// What a mark decodes to; anything for other codes.
template <class T>
MQ_HD constexpr T lane_mark_value(std::uint32_t code) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  constexpr T kValues[]{T{0}, std::numeric_limits<T>::quiet_NaN(), kInf, -kInf};
  return kValues[code % 4];
}

}  // namespace mq::kernels
