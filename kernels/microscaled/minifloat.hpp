// minifloat: floats of any exponent and mantissa in up to 8 bits, in blocks of 32 that share a power of two,
// as in the OCP formats (microscaled/host-inl.hpp). All codes are numbers: none is kept for NaN or Inf.
// exp=2, man=1 is the fp4 of CO3 (Chen, Hernandez, Huang, Rini 2022), exp=5, man=2 and exp=4, man=3 are its
// fp8. (2 + exp + man) / 8 - 3/32 bytes per float.
#pragma once
#include "kernels/microscaled/host-inl.hpp"

struct MiniFloat : MicroscaledCodec<MiniFloat> {
  static constexpr std::string_view kName = "minifloat";
  static constexpr std::string_view kWhat = "floats of 3 to 8 bits, 32 of which share a power of two";
  static constexpr std::uint16_t kId = 17;
  static constexpr std::array kSpecs{ParamSpec{"exp", "bits of exponent", ParamKind::integer, 3, 1, 5},
                                     ParamSpec{"man", "bits of mantissa", ParamKind::integer, 2, 1, 4}};
  static MQ_INLINE auto with_format(const Params& p, auto&& run) { return run(format(p)); }
  static constexpr SmallFloat format(const Params& p) { return minifloat_format(p); }
  static constexpr std::string_view conflict(const Params& p) {
    return format(p).bits() > 8 ? "sign, exp and man take more than 8 bits" : "";
  }
};
