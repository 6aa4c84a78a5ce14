// bf16: every element rounded to bfloat16 (8 exponent bits, 7 mantissa bits). It is the dense baseline of
// every sweep.
//
// round: to the nearest value, ties to even: the relative error of normal values is at most 2^-8 (2^-9 of the
// next power of two above), and values beyond 3.39e38, as doubles may have, become infinite; encode counts
// them. Or stochastic: up with a probability equal to the part that is lost otherwise, so that the mean over
// calls is the element itself within 2^-24 of it; values beyond the greatest become it.
#pragma once
#include "kernels/halves/dither-inl.hpp"
#include "kernels/halves/host-inl.hpp"

struct Bf16 : HalfCodec<Bf16, Bf16Format> {
  static constexpr std::string_view kName = "bf16";
  static constexpr std::string_view kWhat = "bfloat16, to nearest even or stochastic: the half-size baseline";
  static constexpr std::uint16_t kId = 2;
  static constexpr Form form(const Params&) { return Form::bf16; }

  // Parameters.
  static constexpr std::array<std::string_view, 2> kRound{"nearest", "stochastic"};
  static constexpr std::array kSpecs{
      ParamSpec{"round", "to the nearest value, or up or down at random", ParamKind::word, 0, 0, 1, kRound}};
  static constexpr bool stochastic(const Params& p) { return p.value[0] == 1; }

  // Encode.
  template <class T>
  static MQ_INLINE Lanes<T> dithered(const Lanes<T>& v, const Lanes<T>& bits) {
    return dithered_bf16<T>(v, bits);
  }
  template <class T>
  static MQ_INLINE void put_exact(const Lanes<float>& v, std::byte* codes) requires std::is_same_v<T, float> {
    for (int i = 0; i < Lanes<float>::kRegs; ++i)
      Native<float>::store_upper(codes + 2 * Native<float>::kWidth * i, v.r[i]);
  }

  // Bounds.
  static constexpr double kGreatest = 0x1.fep127;
  static constexpr bool unbiased(const Params& p) { return stochastic(p); }
  static constexpr double error_bound(const Params& p) { return stochastic(p) ? 0x1p-7 : 0x1p-8; }
};
