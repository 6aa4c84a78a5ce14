// terngrad: -s, 0 or +s for each element, s the greatest magnitude of its block, at random so that the mean
// over the calls is the element (Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad, NIPS 2017, section 3). The
// expected squared error of a block is s sum |v| - sum v^2, which is more than sum v^2 on most data.
//
// clip: magnitudes beyond `clip` root mean squares of the block become that before s is taken (gradient
// clipping, section 3.3 with 2.5; the paper takes the deviation from the mean of a layer, which for gradients
// is about the same). The error of all other elements becomes less. The mean over the calls is then right for
// elements within the range, and what was clipped stays in the residual.
//
// A block whose magnitudes are all below 2^-110 (doubles: 2^-1000) decodes to 0. If a block has NaN or Inf,
// these become +Inf or -Inf if all of them are equal, else NaN. Its other elements stay in the residual, or
// become NaN without one.
//
// Wire, per block: s, of the element type, or the head of trits.hpp; then the trits, five to a byte, as
// trits.hpp says. The last one to four groups of a block are packed in 2, 4, 5 or 7 bits a number
// (host/packed-inl.hpp). 0.211 bytes per float with blocks of 512, 0.203 with blocks of 2048.
#pragma once
#include "kernels/trits/host-inl.hpp"

struct TernGrad {
  static constexpr std::string_view kName = "terngrad";
  static constexpr std::string_view kWhat = "unbiased -s, 0 or +s of a block (TernGrad, Wen et al. 2017)";
  static constexpr std::uint16_t kId = 25;
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  template <class T>
  using Family = Trits<T, TernGrad>;

  // Parameters.
  static constexpr std::array kSpecs{
      ParamSpec{"block", "elements that share s", ParamKind::power_of_two, 512, 32, integers::kMaxBlock},
      // No magnitude is beyond the root of kMaxBlock root mean squares.
      ParamSpec{"clip", "greatest magnitude, in root mean squares of the block; 0: any", ParamKind::real, 0,
                0, 64}};
  static constexpr trits::Settings settings(const Params& p) { return trits::terngrad_settings(p); }

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return settings(p).block; }

  // Bounds.
  static constexpr bool unbiased(const Params&) { return true; }
  static constexpr bool symmetric(const Params&) { return false; }
  static double error_bound(const Params&) { return 1 + 0x1p-10; }
};
