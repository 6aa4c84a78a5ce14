// What the host and GPU rows of the blockwise integers (int8, int4, qsgd) share: how their parameters are
// read, what is measured of a block, the quantizer that follows from it, and its place on the wire.
// fixed-inl.hpp describes the codecs, rounding-inl.hpp has the arithmetic of elements.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/codec.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels::integers {

inline constexpr std::size_t kMaxBlock = 4096;

// What sets the step of a block: its greatest magnitude, its least and greatest element, or its Euclidean
// norm.
enum class StepRange : std::uint8_t { magnitude, ends, norm };

struct Settings {
  int bits;
  std::size_t block;
  bool stochastic;
  StepRange range;
  bool entropy;  // codes go through the entropy stage

  // The greatest code: -limit to limit are sent as 1 to 2 limit + 1. Code 0 is kept for NaN and Inf.
  MQ_HD constexpr int limit() const { return (1 << (bits - 1)) - 1; }
  MQ_HD constexpr int zero() const { return limit() + 1; }  // the code of the middle
  // Codec::contraction, from the worst blocks. A block has B elements, m is its greatest magnitude, L the
  // limit.
  //
  //   nearest        0 is a value, so no error exceeds its element, and the greatest is exact
  //   random         one element is m, the others are at f m / L: the error is (B - 1) f (1 - f) / (L^2 +
  //                  (B - 1) f^2) of the block. That is below 1 for every f if B - 1 < 8 L^2
  //   ends           two elements are at the ends, the others are 0 and half a step from a value:
  //                  (B - 2) / (8 L^2), as random
  //   norm (random)  all elements have one magnitude, less than half a step: sqrt(B) / L - 1
  constexpr bool contraction() const {
    const auto elements = static_cast<double>(block), squared = static_cast<double>(limit()) * limit();
    if (range == StepRange::norm) return elements < 4 * squared;
    if (range == StepRange::ends) return elements - 2 < 8 * squared;
    return !stochastic || elements - 1 < 8 * squared;
  }
  MQ_HD constexpr std::size_t values() const { return range == StepRange::ends ? 2 : 1; }  // before the codes
  template <class T>
  MQ_HD constexpr std::size_t block_bytes(std::size_t n) const {
    return values() * sizeof(T) + (n + 31) / 32 * 4 * static_cast<std::size_t>(bits);
  }
  template <class T>
  MQ_HD constexpr std::size_t wire_bytes(std::size_t n) const {
    const std::size_t rest = n % block;
    return n / block * block_bytes<T>(block) + (rest != 0 ? block_bytes<T>(rest) : 0);
  }
};

// The settings of int8 and int4, and of qsgd, by the positions of their parameters.
template <int kBits>
MQ_HD constexpr Settings fixed_settings(const Params& p) {
  return {kBits, static_cast<std::size_t>(p.value[0]), p.value[1] == 1,
          p.value[2] == 1 ? StepRange::ends : StepRange::magnitude, p.value[3] == 1};
}
MQ_HD constexpr Settings qsgd_settings(const Params& p) {
  return {static_cast<int>(p.value[0]), static_cast<std::size_t>(p.value[1]), true,
          p.value[2] == 1 ? StepRange::norm : StepRange::magnitude, p.value[3] == 1};
}

// What non-finite elements of a block decode to.
enum class Mark : std::uint8_t { none, nan, above, below };

// The elements of a block that are not finite.
struct NonFiniteCounts {
  std::uint32_t above = 0, below = 0, nan = 0;
  template <class T>
  MQ_HD constexpr void add(T v) {
    nan += v != v;
    above += v > T{0};
    below += v < T{0};
  }
  MQ_HD constexpr std::uint32_t all() const { return above + below + nan; }
  MQ_HD constexpr Mark mark() const {
    return all() == 0 ? Mark::none : all() == above ? Mark::above : all() == below ? Mark::below : Mark::nan;
  }
};

// The values of a block: middle + step q for integers |q| <= limit.
template <class T>
struct Quantizer {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1), kMark = 3;
  // Blocks that go less far from the middle decode to the middle: 1 / step must be finite.
  static constexpr T kTiny = static_cast<T>(sizeof(T) == 4 ? 0x1p-110 : 0x1p-1000);

  T step{0}, middle{0};
  Mark mark = Mark::none;

  // `range` is the distance from the middle to the value farthest from it.
  MQ_HD static constexpr Quantizer of(T middle, T range, int limit, Mark mark) {
    Quantizer to{T{0}, middle, mark};
    if (range >= kTiny) to.step = range / static_cast<T>(limit);
    // Rounding must not carry the last value beyond the range of T.
    if (!to.finite(limit)) to.step *= static_cast<T>(1 - 0x1p-20);
    if (mark != Mark::none) to.step = __builtin_bit_cast(T, __builtin_bit_cast(Bits, to.step) & ~kMark);
    return to;
  }
  // On the wire, the sign and the two lowest bits of the step hold the mark.
  MQ_HD constexpr T step_on_wire() const {
    if (mark == Mark::none) return step;
    return __builtin_bit_cast(T, __builtin_bit_cast(Bits, step) | kSign | static_cast<Bits>(mark));
  }
  MQ_HD static constexpr Quantizer of_wire(T step, T middle) {
    const Bits bits = __builtin_bit_cast(Bits, step);
    if ((bits & kSign) == 0) return {step, middle, Mark::none};
    return {__builtin_bit_cast(T, bits & ~(kSign | kMark)), middle, static_cast<Mark>(bits & kMark)};
  }
  // Whether encode can have written this quantizer, whose step on the wire had a sign if `marked`.
  MQ_HD constexpr bool valid(bool marked, int limit) const {
    return marked == (mark != Mark::none) && finite(limit) &&
           (step == T{0} || step >= kTiny / static_cast<T>(limit) * static_cast<T>(1 - 0x1p-18));
  }
  MQ_HD constexpr T marked_value() const {
    constexpr T kInf = std::numeric_limits<T>::infinity();
    return mark == Mark::above ? kInf : mark == Mark::below ? -kInf : std::numeric_limits<T>::quiet_NaN();
  }
  MQ_HD constexpr T inverse() const { return step == T{0} ? T{0} : T{1} / step; }

 private:
  MQ_HD constexpr bool finite(int limit) const {
    constexpr T kMax = std::numeric_limits<T>::max();
    const T top = middle + static_cast<T>(limit) * step, bottom = middle - static_cast<T>(limit) * step;
    return top <= kMax && top >= -kMax && bottom <= kMax && bottom >= -kMax;
  }
};

// What the elements of a block show.
template <class T>
struct Measured {
  T low = std::numeric_limits<T>::infinity(), high = -low;  // the least and the greatest finite element
  NonFiniteCounts nonfinite;

  MQ_HD constexpr void add(T v) {
    if (!is_finite(v)) return nonfinite.add(v);
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  MQ_HD constexpr bool some_finite() const { return low <= high; }
  // The greatest finite magnitude.
  MQ_HD constexpr T magnitude() const { return !some_finite() ? T{0} : high < -low ? -low : high; }
  // norm: of the finite elements. It counts with StepRange::norm only.
  MQ_HD constexpr Quantizer<T> quantizer(const Settings& settings, T norm) const {
    T middle = 0, range = settings.range == StepRange::norm ? norm : magnitude();
    if (settings.range == StepRange::ends && some_finite()) {
      middle = low / 2 + high / 2 + T{0};  // never -0
      range = high - middle < middle - low ? middle - low : high - middle;
    }
    return Quantizer<T>::of(middle, range, settings.limit(), nonfinite.mark());
  }
};

// The Euclidean norm of the finite elements is computed from their shares of the greatest magnitude, `most`,
// at least Quantizer::kTiny. The sum of the squares goes from element to element, in double.
template <class T>
MQ_HD constexpr double square_of_share(T v, T most) {
  const double share = static_cast<double>(v) / static_cast<double>(most);
  return is_finite(share) ? share * share : 0;
}
// root: of that sum. The norm is at least `most`, and at most the greatest number.
template <class T>
MQ_HD constexpr T norm_of(T most, double root) {
  constexpr auto kMax = static_cast<double>(std::numeric_limits<T>::max());
  const double norm = static_cast<double>(most) * root;
  const T within = static_cast<T>(kMax < norm ? kMax : norm);
  return most < within ? within : most;
}

// Added to a number of magnitude below 2^21, this rounds it to the nearest integer, ties to even, and leaves
// that integer plus `zero`, the code, in the lowest bits of the sum.
template <class T>
MQ_HD constexpr T rounder(int zero) {
  return static_cast<T>(sizeof(T) == 4 ? 0x1.8p23 : 0x1.8p52) + static_cast<T>(zero);
}

}  // namespace mq::kernels::integers
