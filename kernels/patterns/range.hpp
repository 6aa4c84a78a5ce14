// The range of codec rangefloat. Host and GPU rows share this file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/codec.hpp"
#include "kernels/float_bits.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels {

// What the parameters say. Patterns are cut: they are the patterns of magnitudes, shifted by `drop` bits.
template <class T>
struct FloatRange {
  using Word = typename FloatBits<T>::Word;
  static constexpr std::size_t kBlock = 256;
  static constexpr int kMantissa = FloatBits<T>::kMantissa;

  int bits, drop;
  Word codes, last;  // codes of a sign, without 0 and infinity; the greatest cut pattern of a finite number
  bool own;          // blocks have tops of their own
  Word top;          // of all blocks otherwise

  explicit FloatRange(const Params& p)
      : bits(static_cast<int>(p.value[0])),
        drop(kMantissa - static_cast<int>(p.value[1])),
        codes((Word{1} << (bits - 1)) - 2),
        last(std::bit_cast<Word>(std::numeric_limits<T>::max()) >> drop),
        own(p.value[2] == 0 && p.value[3] == 0),
        top(0) {
    const auto pattern = [](double magnitude) { return std::bit_cast<Word>(static_cast<T>(magnitude)); };
    if (p.value[2] > 0) top = within((pattern(p.value[2]) + (Word{1} << drop) - 1) >> drop);
    if (p.value[3] > 0) top = within((pattern(p.value[3]) >> drop) + codes - 1);
  }
  // The least magnitude must be more than 0, the greatest finite.
  MQ_HD Word within(Word t) const { return t < codes ? codes : t < last ? t : last; }
  MQ_HD Word rounded(Word magnitude) const { return (magnitude + (Word{1} << (drop - 1))) >> drop; }
  MQ_HD std::size_t group() const { return 4 * static_cast<std::size_t>(bits); }  // bytes of 32 codes
  MQ_HD std::size_t wire_bytes(std::size_t n) const {
    return (own ? (n + kBlock - 1) / kBlock * sizeof(Word) : 0) + (n + 31) / 32 * group();
  }
};

}  // namespace mq::kernels
