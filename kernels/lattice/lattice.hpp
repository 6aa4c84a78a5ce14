// What the host and GPU rows of bound share: its step, its wire, and how a block is sent. lattice/bound.hpp
// describes them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/codec.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels {

// Where packed integers lie (lattice/packing-inl.hpp).
template <class Word>
struct PackedRows {
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Word));
  static constexpr std::size_t kRowBytes = 32, kColumns = kRowBytes / sizeof(Word);

  MQ_HD static constexpr std::size_t rows_of(std::size_t n) { return (n + kColumns - 1) / kColumns; }
  MQ_HD static constexpr std::size_t bytes(std::size_t n, int width) {
    return (rows_of(n) * static_cast<std::size_t>(width) + kBits - 1) / kBits * kRowBytes;
  }
  // A number k is packed as k + half.
  MQ_HD static constexpr Word half_of(int width) { return width == 0 ? 0 : Word{1} << (width - 1); }
  // Codes from quarter on, below 3 quarters, have a lower width. The highest bit of others minus quarter is
  // set.
  MQ_HD static constexpr Word quarter_of(int width) { return width > 1 ? half_of(width - 1) : 1; }
};

template <class T>
struct LatticeWire {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Packed = PackedRows<Word>;
  static constexpr std::size_t kBlock = 256;
  // Numbers from -2^kLimitBits to 2^kLimitBits - 1 are packed.
  static constexpr int kLimitBits = sizeof(T) == 4 ? 22 : 51;
  // Added to a number of that range, it rounds it to an integer k. The bit pattern of the sum is then k +
  // kZero. With other numbers it is, as a signed integer, below or above all of these.
  static constexpr T kRounder = static_cast<T>(sizeof(T) == 4 ? 0x1.8p23 : 0x1.8p52);
  static constexpr Word kZero = __builtin_bit_cast(Word, kRounder);

  // The most bytes of n elements.
  MQ_HD static constexpr std::size_t wire_bytes(std::size_t n) {
    return n * sizeof(T) + (n + kBlock - 1) / kBlock;
  }

  MQ_HD static constexpr bool in_range(int width) { return width <= kLimitBits + 1; }

  enum Mode : std::uint8_t { kPlain, kDelta, kRaw };

  // How a block is sent.
  struct Form {
    Mode mode;
    bool outside;  // a number is beyond the range: the elements are sent as they are, not rounded to the step
    int width;

    // The widths hold all numbers, and the differences of each to the one before. The latter does not matter
    // if the former is beyond the range.
    MQ_HD static constexpr Form of(std::size_t n, int width, int width_of_differences) {
      if (!in_range(width)) return {kRaw, true, 0};
      const Form plain{kPlain, false, width}, delta{kDelta, false, width_of_differences};
      const Form form = delta.bytes(n) < plain.bytes(n) ? delta : plain;
      return form.bytes(n) < n * sizeof(T) ? form : Form{kRaw, false, 0};
    }
    MQ_HD static constexpr Form of_head(std::uint8_t head) {
      return {static_cast<Mode>(head >> 6), false, head & 63};
    }
    MQ_HD constexpr std::uint8_t head() const { return static_cast<std::uint8_t>(mode << 6 | width); }
    MQ_HD constexpr std::size_t first_bytes() const { return mode == kDelta ? sizeof(Word) : 0; }
    // Behind the head.
    MQ_HD constexpr std::size_t bytes(std::size_t n) const {
      return mode == kRaw ? n * sizeof(T) : first_bytes() + Packed::bytes(n, width);
    }
    // False if encode cannot have chosen it for n elements.
    MQ_HD constexpr bool valid(std::size_t n) const {
      if (mode == kRaw) return width == 0;
      return mode <= kDelta && width <= kLimitBits + 1 + (mode == kDelta) && bytes(n) < n * sizeof(T);
    }
  };
};

// The step of bound(abs, growth) is a power of two. This is its exponent for so many ranks; p begins with abs
// and growth. kNoStep is less than the exponent of any normal number. Products of powers of two and whole
// numbers are exact.
inline constexpr int kNoStep = -1023;
inline int bound_exponent(const Params& p, int ranks) {
  const double twice = 2 * p.value[0],
               share = p.value[1] == 1 ? std::sqrt(static_cast<double>(ranks)) : ranks;
  if (!(twice > 0)) return kNoStep;
  int e = std::min(std::ilogb(twice / share), 99) + 1;  // ilogb of an infinity is the greatest int
  while (e > kNoStep && std::ldexp(share, e) > twice) --e;
  return e;
}
// 0: there is no such number, and elements are sent as they are.
template <class T>
T bound_step(const Params& p, int ranks) {
  const int e = bound_exponent(p, ranks);
  return e < std::numeric_limits<T>::min_exponent - 1 ? T{0} : static_cast<T>(std::ldexp(1.0, e));
}

}  // namespace mq::kernels
