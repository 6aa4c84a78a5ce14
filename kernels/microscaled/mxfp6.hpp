// mxfp6: OCP MXFP6 (Microscaling Formats 1.0): blocks of 32 floats of 6 bits that share a power of two. 0.781
// bytes per float.
#pragma once
#include "kernels/microscaled/host-inl.hpp"

struct MxFp6 : MicroscaledCodec<MxFp6> {
  static constexpr std::string_view kName = "mxfp6";
  static constexpr std::string_view kWhat = "6-bit floats, 32 of which share a power of two (OCP MXFP6)";
  static constexpr std::uint16_t kId = 13;
  static constexpr std::array<std::string_view, 2> kFormats{"e2m3", "e3m2"};
  static constexpr std::array kSpecs{
      ParamSpec{"format", "bits of exponent and mantissa", ParamKind::word, 0, 0, 1, kFormats}};
  static MQ_INLINE auto with_format(const Params& p, auto&& run) {
    return p.value[0] == 0 ? run(kE2M3) : run(kE3M2);
  }
  static constexpr SmallFloat format(const Params& p) { return mxfp6_format(p); }
};
