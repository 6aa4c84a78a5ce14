// none: nothing is kept between calls, with a key or without one. What an encode leaves out is lost.
#pragma once
#include "kernels/host/memory-inl.hpp"

struct NoMemory {
  static constexpr std::string_view kName = "none";
  static constexpr std::string_view kWhat = "keeps nothing, even with a key: what is left out is lost";
  static constexpr std::uint8_t kId = 1;
  static constexpr std::array<ParamSpec, 0> kSpecs{};
  static constexpr int kArrays = 0;
};
