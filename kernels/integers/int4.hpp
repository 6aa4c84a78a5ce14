// int4: blocks of integers of 4 bits (fixed-inl.hpp). 0.5156 bytes per float at block 256. Normally
// distributed elements lose about 13 % of their norm.
#pragma once
#include "kernels/integers/fixed-inl.hpp"

struct Int4 : FixedIntegers<Int4, 4> {
  static constexpr std::string_view kName = "int4";
  static constexpr std::string_view kWhat = "4-bit integers and a scale a block, to nearest or stochastic";
  static constexpr std::uint16_t kId = 10;
};
