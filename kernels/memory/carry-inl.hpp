// carry: error feedback (Seide et al. 2014, section 3). v = x + e is encoded; e' = v - decoded waits for the
// next call. The codecs do this themselves, in the pass that encodes.
#pragma once
#include "kernels/host/memory-inl.hpp"

struct Carry {
  static constexpr std::string_view kName = "carry";
  static constexpr std::string_view kWhat =
      "error feedback: what is left out is added to the next call (Seide et al. 2014)";
  static constexpr std::uint8_t kId = 2;
  static constexpr std::array<ParamSpec, 0> kSpecs{};
  static constexpr int kArrays = 1;
};
