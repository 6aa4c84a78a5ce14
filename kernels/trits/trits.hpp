// What the host and GPU rows of terngrad share: how the elements of a block, -s, 0 or +s, become bytes. A
// trit is one of 0, 1 and 2 for these. trits/terngrad.hpp describes the codec and its wire.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec.hpp"
#include "kernels/hd.hpp"
#include "kernels/integers/integers.hpp"

namespace mq::kernels::trits {

// So many groups of 32 elements share 32 bytes: the trits of the i-th elements of all groups are the digits
// of byte i, to the base 3; the first group has the highest digit. 3^5 = 243.
inline constexpr std::size_t kGroups = 5;

inline constexpr int kZero = 1;  // the trit of 0

// The bits of a number of so many trits, at most kGroups.
MQ_HD constexpr int bits_of(std::size_t trits) {
  constexpr int kBits[]{0, 2, 4, 5, 7, 8};
  return kBits[trits];
}
// 3^trits.
MQ_HD constexpr std::uint32_t numbers_of(std::size_t trits) {
  std::uint32_t numbers = 1;
  for (std::size_t i = 0; i < trits; ++i) numbers *= 3;
  return numbers;
}

struct Settings {
  std::size_t block;
  double clip;  // more than 0: magnitudes beyond `clip` root mean squares of their block become that

  // The s of a block of this greatest magnitude. root: the root of the mean of (v / most)^2.
  template <class T>
  MQ_HD constexpr T clipped(T most, double root) const {
    const double within = clip * static_cast<double>(most) * root;
    return within < static_cast<double>(most) ? static_cast<T>(within) : most;
  }

  template <class T>
  MQ_HD constexpr std::size_t block_bytes(std::size_t n) const {
    const std::size_t groups = (n + 31) / 32;
    return sizeof(T) + 4 * (groups / kGroups * 8 + static_cast<std::size_t>(bits_of(groups % kGroups)));
  }
  template <class T>
  MQ_HD constexpr std::size_t wire_bytes(std::size_t n) const {
    const std::size_t rest = n % block;
    return n / block * block_bytes<T>(block) + (rest != 0 ? block_bytes<T>(rest) : 0);
  }
};

MQ_HD constexpr Settings terngrad_settings(const Params& p) {
  return {static_cast<std::size_t>(p.value[0]), p.value[1]};
}

// The head of a block with NaN or Inf. Trit 2 marks these, and 1 stands for a finite element: it decodes to 0
// and is in the residual, or to NaN if there is no residual and it is lost.
template <class T>
struct MarkedHead {
  using Quantizer = integers::Quantizer<T>;
  using Bits = typename Quantizer::Bits;
  static constexpr Bits kLost = 4;
  integers::Mark mark = integers::Mark::nan;
  bool lost = false;

  MQ_HD constexpr T on_wire() const {
    return __builtin_bit_cast(T, Quantizer::kSign | (lost ? kLost : Bits{0}) | static_cast<Bits>(mark));
  }
  MQ_HD static constexpr MarkedHead of_wire(T head) {
    const Bits bits = __builtin_bit_cast(Bits, head);
    return {static_cast<integers::Mark>(bits & Quantizer::kMark), (bits & kLost) != 0};
  }
  // Whether encode can have written this head.
  MQ_HD constexpr bool valid(T head) const {
    return mark != integers::Mark::none &&
           __builtin_bit_cast(Bits, head) == __builtin_bit_cast(Bits, on_wire());
  }
  MQ_HD constexpr T marked_value() const { return Quantizer{T{0}, T{0}, mark}.marked_value(); }
  MQ_HD constexpr T other_value() const {
    return lost ? Quantizer{T{0}, T{0}, integers::Mark::nan}.marked_value() : T{0};
  }
};

}  // namespace mq::kernels::trits
