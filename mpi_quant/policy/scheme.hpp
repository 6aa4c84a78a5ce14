// Schemes: methods of a call that are several ordinary reductions, one after the other. This is what a policy
// has to know of them. What a scheme does is in mpi_quant/schemes/, as core/scheme.hpp asks for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/codec.hpp"

namespace mq {

struct Scheme {
  std::string_view name;  // stands in place of a codec in a method
  std::uint8_t id;        // unique for ever; part of the call's signature
  std::string_view what;  // one line for --list
  std::span<const kernels::ParamSpec> specs;
};

inline constexpr int kMostRank = 64;
inline constexpr std::array kLowRankSpecs{
    kernels::ParamSpec{"rank", "columns of the two factors", kernels::ParamKind::integer, 2, 1, kMostRank}};
inline constexpr std::array kSchemes{
    Scheme{"lowrank", 1, "a matrix as the product of two narrow ones, with error feedback (PowerSGD)",
           kLowRankSpecs},
};
inline const Scheme* find_scheme(std::string_view name) {
  const auto* const at =
      std::find_if(kSchemes.begin(), kSchemes.end(), [&](const Scheme& s) { return s.name == name; });
  return at == kSchemes.end() ? nullptr : at;
}
inline kernels::Params preset_params(const Scheme& scheme) {
  kernels::Params params;
  for (std::size_t i = 0; i < scheme.specs.size(); ++i) params.value[i] = scheme.specs[i].preset;
  return params;
}

}  // namespace mq
