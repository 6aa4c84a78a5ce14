// Blockwise integers: what int8, int4 and qsgd have in common. The elements of a block are rounded to values
// middle + step q for integers q from -limit to limit, limit = 2^(bits - 1) - 1, and q is sent.
//
// scale: the step range, which sets the step of a block.
//
//   absmax  middle 0; step = (greatest magnitude) / limit. Zero stays zero, and signs do not matter.
//   minmax  The values go from the least to the greatest element. Better where these are not symmetric around
//           0. A block of equal elements is exact. The middle is sent too.
//   norm=l2 middle 0; step = (Euclidean norm) / limit, as in the theory of QSGD.
//
// round: to the nearest value, ties to even; or stochastic, up with a probability equal to the part that is
// lost otherwise, so that the mean over calls is the element itself (within 2^-17 step). The random bits are
// a function of NoiseIndex (philox.hpp), so equal operands give equal wires.
//
// NaN and Inf get the code 0 and do not touch the others. They decode to +Inf or -Inf if all of their block
// are equal, else to NaN. A block whose elements are all within 2^-110 (doubles: 2^-1000) of the middle
// decodes to the middle.
//
// code: fixed, as below; or entropy, which packs the codes of 4096 elements by the entropy stage where that
// takes fewer bytes (entropy/coded-inl.hpp). The values are the same.
//
// Wire, per block: the step (the sign and the two lowest bits say how non-finite elements decode), with
// minmax the middle, both of the element type, and the codes q + limit + 1, packed as in host/packed-inl.hpp:
// bits / 8 + 4 / block bytes per element for floats.
#pragma once
#include "kernels/integers/host-inl.hpp"

inline constexpr std::array<std::string_view, 2> kRoundWords{"nearest", "stochastic"};
inline constexpr std::array<std::string_view, 2> kScaleWords{"absmax", "minmax"};

// The traits that follow from the settings.
template <class Me>
struct IntegerCodec {
  static constexpr bool kLossless = false;
  template <class T>
  using Family = Integers<T, Me>;
  static constexpr std::size_t block(const Params& p) {
    const integers::Settings s = Me::settings(p);
    return s.entropy ? CodePlaces::kPiece : s.block;
  }
  static constexpr bool unbiased(const Params& p) { return Me::settings(p).stochastic; }
  static constexpr bool contraction(const Params& p) { return Me::settings(p).contraction(); }
  static constexpr bool symmetric(const Params& p) {
    const integers::Settings s = Me::settings(p);
    return !s.stochastic && s.range != integers::StepRange::ends;
  }
  static double error_bound(const Params& p) {
    const integers::Settings s = Me::settings(p);
    const double range = s.range == integers::StepRange::norm ? std::sqrt(static_cast<double>(s.block)) : 1;
    return range * (s.stochastic ? 1 : 0.5) / s.limit() * (1 + 0x1p-10);
  }
};

// int8 and int4.
template <class Me, int kBits>
struct FixedIntegers : IntegerCodec<Me> {
  static constexpr std::array kSpecs{
      ParamSpec{"block", "elements that share a step", ParamKind::power_of_two, 256, 32, integers::kMaxBlock},
      ParamSpec{"round", "to the nearest value, or up or down at random", ParamKind::word, 0, 0, 1,
                kRoundWords},
      ParamSpec{"scale", "what sets the step", ParamKind::word, 0, 0, 1, kScaleWords}, kCodeSpec};
  static constexpr integers::Settings settings(const Params& p) { return integers::fixed_settings<kBits>(p); }
};
