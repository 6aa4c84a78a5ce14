// Exact scalar functions that host and device share: bit patterns and narrow float formats. They need the
// default floating-point environment.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#  define MQ_HD __host__ __device__
#else
#  define MQ_HD
#endif
// A function of a file that is compiled for each instruction set of the processor and for GPUs.
#ifdef __CUDACC__
#  define MQ_MATH __device__
#else
#  define MQ_MATH MQ_INLINE
#endif
#ifdef MQ_SCALAR_ONLY  // builds for sanitizers (MPIQ_SCALAR): clang would take minutes for one object of 32 scalar lanes
#  define MQ_INLINE inline
#else
#  define MQ_INLINE inline __attribute__((always_inline))
#endif

namespace mq::kernels {

// Neither NaN nor infinite.
MQ_HD constexpr bool is_finite(float v) {
  return (__builtin_bit_cast(std::uint32_t, v) & 0x7fffffffu) < 0x7f800000u;
}
MQ_HD constexpr bool is_finite(double v) {
  return (__builtin_bit_cast(std::uint64_t, v) & 0x7fffffffffffffffu) < 0x7ff0000000000000u;
}

// Rounds a float, given as bits, to bfloat16: to nearest, ties to even (IEEE 754). Values beyond the largest
// bfloat16 become infinite. A NaN stays a NaN (made quiet, the upper bits of its payload kept).
MQ_HD constexpr std::uint16_t bf16_from_bits(std::uint32_t u) {
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (u >> 16) | 0x40u;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

// Exact. A NaN is made quiet.
MQ_HD constexpr std::uint32_t bits_from_bf16(std::uint16_t h) {
  const std::uint32_t bits = static_cast<std::uint32_t>(h) << 16;
  return bits | ((h & 0x7fffu) > 0x7f80u ? 0x400000u : 0u);
}

// Rounds a float, given as bits, to IEEE 754 half (5 exponent bits, 10 mantissa bits): to nearest, ties to
// even. Below 2^-14 it rounds to a multiple of 2^-24; from 65520 on it rounds to infinity. A NaN stays a NaN
// (made quiet, its sign and the upper bits of its payload kept), as with the x86 instruction.
MQ_HD constexpr std::uint16_t f16_from_bits(std::uint32_t u) {
  const std::uint32_t magnitude = u & 0x7fffffffu;
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  const std::uint32_t normal = (rounded - 0x38000000u) >> 13;  // exponent bias 15 instead of 127
  // The last bit of 0.5 is 2^-24, the unit of subnormal halves, so this addition rounds to it.
  const float sum = __builtin_bit_cast(float, magnitude) + 0.5F;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, sum) - 0x3f000000u;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const std::uint32_t half = magnitude > 0x7f800000u    ? nan
                             : magnitude >= 0x477ff000u ? 0x7c00u
                             : magnitude >= 0x38800000u ? normal
                                                        : subnormal;
  return static_cast<std::uint16_t>(((u >> 16) & 0x8000u) | half);
}

// Exact. A NaN is made quiet.
MQ_HD constexpr std::uint32_t bits_from_f16(std::uint16_t h) {
  const std::uint32_t magnitude = h & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u | (magnitude > 0x7c00u ? 0x400000u : 0u);
  const float difference = __builtin_bit_cast(float, magnitude + 0x3f000000u) - 0.5F;  // magnitude * 2^-24
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, difference);
  const std::uint32_t bits = magnitude >= 0x7c00u ? special : magnitude >= 0x400u ? normal : subnormal;
  return (static_cast<std::uint32_t>(h & 0x8000u) << 16) | bits;
}

}  // namespace mq::kernels
