// terngrad: -s, 0 or +s for each element, s the greatest magnitude of its block, at random so that the mean over the calls
// is the element (Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad, NIPS 2017, section 3). The expected squared error of a block
// is s sum |v| - sum v^2, which is more than sum v^2 on most data.
//
// clip: magnitudes beyond `clip` root mean squares of the block become that before s is taken (gradient clipping, section
// 3.3 with 2.5; the paper takes the deviation from the mean of a layer, which for gradients is about the same). The error
// of all other elements becomes less. The mean over the calls is then right for elements within the range, and what was
// clipped stays in the residual.
//
// The format is that of integers_format-inl.hpp with codes of 2 bits: 0.258 bytes per float with blocks of 512. Five codes of
// base 3 in a byte would be 0.211, and packing them takes no longer. But 0 must stay a code of its own for NaN and Inf, so
// blocks with them would need another form.
#pragma once
#include "kernels/codecs/integers_format-inl.hpp"

struct TernGrad : IntegerCodec<TernGrad> {
  static constexpr std::string_view kName = "terngrad";
  static constexpr std::string_view kWhat = "unbiased -s, 0 or +s of a block (TernGrad, Wen et al. 2017)";
  static constexpr std::uint16_t kId = 21;
  static constexpr std::array kSpecs{
      ParamSpec{"block", "elements that share s", ParamKind::power_of_two, 512, 32, integers::kMaxBlock},
      // No magnitude is beyond the root of kMaxBlock root mean squares.
      ParamSpec{"clip", "greatest magnitude, in root mean squares of the block; 0: any", ParamKind::real, 0,
                0, 64}};
  static constexpr integers::Settings settings(const Params& p) { return integers::terngrad_settings(p); }
};
