// mxfp8: OCP MXFP8 (Microscaling Formats 1.0): blocks of 32 floats of 8 bits that share a power of two. 1.031
// bytes per float. Sums are made of decoded values in the element type.
#pragma once
#include "kernels/microscaled/host-inl.hpp"

struct MxFp8 : MicroscaledCodec<MxFp8> {
  static constexpr std::string_view kName = "mxfp8";
  static constexpr std::string_view kWhat = "8-bit floats, 32 of which share a power of two (OCP MXFP8)";
  static constexpr std::uint16_t kId = 12;
  static constexpr std::array<std::string_view, 2> kFormats{"e4m3", "e5m2"};
  static constexpr std::array kSpecs{
      ParamSpec{"format", "bits of exponent and mantissa", ParamKind::word, 0, 0, 1, kFormats}};
  static MQ_INLINE auto with_format(const Params& p, auto&& run) {
    return p.value[0] == 0 ? run(kE4M3) : run(kE5M2);
  }
  static constexpr SmallFloat format(const Params& p) { return mxfp8_format(p); }
};
