// mxfp4: OCP MXFP4 (Microscaling Formats 1.0): blocks of 32 floats of 4 bits, E2M1, that share a power of
// two. 0.531 bytes per float.
#pragma once
#include "kernels/microscaled/host-inl.hpp"

struct MxFp4 : MicroscaledCodec<MxFp4> {
  static constexpr std::string_view kName = "mxfp4";
  static constexpr std::string_view kWhat = "4-bit floats, 32 of which share a power of two (OCP MXFP4)";
  static constexpr std::uint16_t kId = 14;
  static constexpr std::array<ParamSpec, 0> kSpecs{};
  static MQ_INLINE auto with_format(const Params& p, auto&& run) { return run(format(p)); }
  static constexpr SmallFloat format(const Params& p) { return mxfp4_format(p); }
};
