// int8: blocks of integers of 8 bits (fixed-inl.hpp). 1.0156 bytes per float at block 256. Normally
// distributed elements lose about 0.7 % of their norm.
#pragma once
#include "kernels/integers/fixed-inl.hpp"

struct Int8 : FixedIntegers<Int8, 8> {
  static constexpr std::string_view kName = "int8";
  static constexpr std::string_view kWhat = "8-bit integers and a scale a block, to nearest or stochastic";
  static constexpr std::uint16_t kId = 9;
};
