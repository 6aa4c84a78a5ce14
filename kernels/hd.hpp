// Exact scalar primitives that host and device share: bit patterns and narrow float formats.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#  define MQ_HD __host__ __device__
#else
#  define MQ_HD
#endif

namespace mq::kernels {

// bfloat16 of a float given as bits: round to nearest, ties to even, as IEEE 754 rounds: values beyond the
// largest bfloat16 become infinite. A NaN stays a NaN (quiet, its upper payload kept).
MQ_HD constexpr std::uint16_t bf16_from_bits(std::uint32_t u) {
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (u >> 16) | 0x40u;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

MQ_HD constexpr std::uint32_t bits_from_bf16(std::uint16_t h) { return static_cast<std::uint32_t>(h) << 16; }

}  // namespace mq::kernels
