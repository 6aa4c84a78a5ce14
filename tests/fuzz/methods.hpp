// A codec with parameters that a policy may state, from a fuzzer's bytes.
#pragma once

#include <cmath>

#include "mpi_quant/policy/policy.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace mq::fuzz {

inline double take_param(Bytes& bytes, const kernels::ParamSpec& spec) {
  const auto byte = bytes.take<std::uint8_t>();
  if (byte == 0) return spec.preset;
  switch (spec.kind) {
    case kernels::ParamKind::power_of_two: return std::min(spec.max, std::ldexp(spec.min, byte % 16));
    case kernels::ParamKind::real: return spec.min + (spec.max - spec.min) * std::ldexp(byte, -8 - byte % 40);
    case kernels::ParamKind::integer:
    case kernels::ParamKind::word: break;
  }
  const double span = std::min(spec.max - spec.min, 5000.0) + 1;
  return spec.min + std::fmod(byte % 16 == 15 ? byte * 97.0 : byte, span);
}

// False if no policy can say so, as of columns that are longer than their distance.
inline bool take_method(Bytes& bytes, Method& method) {
  const auto all = kernels::codecs();
  method.codec = &all[bytes.take<std::uint8_t>() % all.size()];
  for (std::size_t i = 0; i < method.codec->specs.size(); ++i)
    method.params.value[i] = take_param(bytes, method.codec->specs[i]);
  const auto said = parse_method(to_string(method));
  return said.ok() && *said == method;
}

}  // namespace mq::fuzz
