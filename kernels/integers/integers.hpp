// What the host and GPU rows of the blockwise integers (int8, int4, qsgd) share: their grid, its place on the
// wire, and how their parameters are read. integers/fixed-inl.hpp describes the codecs.
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

// What sets the grid of a block: its greatest magnitude, its least and greatest element, or its Euclidean
// norm.
enum class Reach : std::uint8_t { magnitude, ends, norm };

struct Settings {
  int bits;
  std::size_t block;
  bool stochastic;
  Reach reach;
  bool entropy;  // codes go through the entropy stage

  // The greatest code: -limit to limit are sent as 1 to 2 limit + 1. Code 0 is kept for NaN and Inf.
  MQ_HD constexpr int limit() const { return (1 << (bits - 1)) - 1; }
  // Codec::contraction, from the worst blocks. A block has B elements, m is its greatest magnitude, L the
  // limit.
  //
  //   nearest        0 is on the grid, so no error exceeds its element, and the greatest is exact
  //   random         one element is m, the others are at f m / L: the error is (B - 1) f (1 - f) / (L^2 +
  //                  (B - 1) f^2) of the block. That is below 1 for every f if B - 1 < 8 L^2
  //   ends           two elements are at the ends, the others are 0 and half a step from the grid:
  //                  (B - 2) / (8 L^2), as random
  //   norm (random)  all elements have one magnitude, less than half a step: sqrt(B) / L - 1
  constexpr bool contraction() const {
    const auto elements = static_cast<double>(block), grid = static_cast<double>(limit()) * limit();
    if (reach == Reach::norm) return elements < 4 * grid;
    if (reach == Reach::ends) return elements - 2 < 8 * grid;
    return !stochastic || elements - 1 < 8 * grid;
  }
  MQ_HD constexpr std::size_t values() const { return reach == Reach::ends ? 2 : 1; }  // before the codes
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
          p.value[2] == 1 ? Reach::ends : Reach::magnitude, p.value[3] == 1};
}
MQ_HD constexpr Settings qsgd_settings(const Params& p) {
  return {static_cast<int>(p.value[0]), static_cast<std::size_t>(p.value[1]), true,
          p.value[2] == 1 ? Reach::norm : Reach::magnitude, p.value[3] == 1};
}

// What non-finite elements of a block decode to.
enum class Mark : std::uint8_t { none, nan, above, below };

// The values of a block: middle + step q for integers |q| <= limit.
template <class T>
struct Grid {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1), kMark = 3;
  // Blocks that reach less far from the middle decode to the middle: 1 / step must be finite.
  static constexpr T kTiny = static_cast<T>(sizeof(T) == 4 ? 0x1p-110 : 0x1p-1000);

  T step{0}, middle{0};
  Mark mark = Mark::none;

  // `reach` is the distance from the middle to the farthest element.
  MQ_HD static constexpr Grid of(T middle, T reach, int limit, Mark mark) {
    Grid grid{T{0}, middle, mark};
    if (reach >= kTiny) grid.step = reach / static_cast<T>(limit);
    // Rounding must not carry the last value beyond the range of T.
    if (!grid.finite(limit)) grid.step *= static_cast<T>(1 - 0x1p-20);
    if (mark != Mark::none) grid.step = __builtin_bit_cast(T, __builtin_bit_cast(Bits, grid.step) & ~kMark);
    return grid;
  }
  // On the wire, the sign and the two lowest bits of the step hold the mark.
  MQ_HD constexpr T step_on_wire() const {
    if (mark == Mark::none) return step;
    return __builtin_bit_cast(T, __builtin_bit_cast(Bits, step) | kSign | static_cast<Bits>(mark));
  }
  MQ_HD static constexpr Grid of_wire(T step, T middle) {
    const Bits bits = __builtin_bit_cast(Bits, step);
    if ((bits & kSign) == 0) return {step, middle, Mark::none};
    return {__builtin_bit_cast(T, bits & ~(kSign | kMark)), middle, static_cast<Mark>(bits & kMark)};
  }
  // Whether encode can have written this grid, whose step had this sign on the wire.
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

// Added to a number of magnitude below 2^21, this rounds it to the nearest integer, ties to even, and leaves
// that integer plus limit + 1, the code, in the lowest bits of the sum.
template <class T>
MQ_HD constexpr T rounder(int limit) {
  return static_cast<T>(sizeof(T) == 4 ? 0x1.8p23 : 0x1.8p52) + static_cast<T>(limit + 1);
}

}  // namespace mq::kernels::integers
