// Floating-point numbers of 4 to 8 bits: sign, exponent, mantissa, from the highest bit to the lowest, with subnormal
// numbers. Host and GPU rows share this file. OCP Microscaling Formats (MX) 1.0, section 5.3, has the formats by name.
#pragma once

#include <cstdint>

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
  MQ_HD constexpr bool operator==(const SmallFloat&) const = default;
};

// Inf is S.11111.00 in E5M2, NaN S.11111.{01,10,11}; E4M3 has NaN, S.1111.111, and no Inf; the others have neither.
inline constexpr SmallFloat kE5M2{5, 2, 0x7b}, kE4M3{4, 3, 0x7e}, kE3M2{3, 2, 0x1f}, kE2M3{2, 3, 0x1f},
    kE2M1{2, 1, 0x7};

}  // namespace mq::kernels
