// qsgd: unbiased integers of 2 to 8 bits of fixed width (Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD, NIPS
// 2017). norm=l2 is section 3.1 of the paper; norm=max, the greatest magnitude, is section 4. With norm=l2
// the expected squared error of a block of d elements is at most min(d / s^2, sqrt(d) / s) times its squared
// norm, s = 2^(bits - 1) - 1 (lemma 3.1). With norm=max it is less on real gradients, by 10 times and more.
// The paper's variable-length code, Elias's, is not used: code=entropy takes fewer bytes, unless most
// elements are 0. The format is in fixed-inl.hpp. At 4 bits and block 512, 0.508 bytes per float.
#pragma once
#include "kernels/integers/fixed-inl.hpp"

struct Qsgd : IntegerCodec<Qsgd> {
  static constexpr std::string_view kName = "qsgd";
  static constexpr std::string_view kWhat =
      "unbiased integers of 2 to 8 bits a block (QSGD, Alistarh et al. 2017)";
  static constexpr std::uint16_t kId = 11;
  static constexpr std::array<std::string_view, 2> kNormWords{"max", "l2"};
  static constexpr std::array kSpecs{
      ParamSpec{"bits", "of a code", ParamKind::integer, 4, 2, 8},
      ParamSpec{"block", "elements that share a norm", ParamKind::power_of_two, 512, 32, integers::kMaxBlock},
      ParamSpec{"norm", "what one step is a share of", ParamKind::word, 0, 0, 1, kNormWords}, kCodeSpec};
  static constexpr integers::Settings settings(const Params& p) { return integers::qsgd_settings(p); }
};
