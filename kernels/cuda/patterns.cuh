// natural and rangefloat on a GPU: codes that are pieces of the elements' bit patterns. Twins of codecs/natural-inl.hpp and
// codecs/rangefloat-inl.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/natural.hpp"
#include "kernels/range_float.hpp"

namespace mq::simt {

template <class Element>
struct NaturalBlocks {
  using T = Element;
  using Settings = kernels::block_rows::Fixed;
  using Word = typename BitsOf<T>::Word;
  using Wire = kernels::NaturalWire<T>;
  static constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  static constexpr Word kMost = BitsOf<T>::kInf - (Word{1} << kMantissa);  // the greatest power of two

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(Wire::bytes(n));
  }

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(Settings, const BlockSource<T, F>& source, BlockRandom& random,
                                        std::byte* wire) {
    std::uint64_t nonfinite = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g, wire += Wire::kGroup) {
      const T v = source.v(g);
      const bool exists = source.index(g) < source.n, finite = is_finite(v);
      const Word magnitude = bits_as<Word>(v) & ~BitsOf<T>::kSign;
      const Word dither = static_cast<Word>(random.bits_at(g)) << (kMantissa - 16);
      const Word power = smaller((magnitude + dither) & BitsOf<T>::kInf, kMost);
      const Word sent = finite ? power | (bits_as<Word>(v) & BitsOf<T>::kSign) : bits_as<Word>(v);
      const bool is_nan = v != v;
      // minus zero is sent as zero
      const bool negative = exists && !(bits_as<T>(sent) >= T{0});
      const auto field =
          exists && !is_nan ? static_cast<std::uint32_t>((sent & ~BitsOf<T>::kSign) >> kMantissa) : 0;
      source.keep(g, finite ? v - value(field, negative) : T{0});
      put(wire, field, negative);
      nonfinite += count_ones(ballot(exists && !finite));
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd>& target, const std::byte* wire) {
    bool ok = true;
    for (std::uint32_t g = 0; g < groups_of(target.n); ++g, wire += Wire::kGroup) {
      std::uint32_t field = static_cast<std::uint32_t>(wire[lane()]);
      if constexpr (sizeof(T) == 8) field |= unpack_code(wire + 32, 3) << 8;
      const std::byte* const signs = wire + Wire::kGroup - 4;
      const bool negative = (static_cast<std::uint32_t>(signs[lane() / 8]) >> (lane() % 8) & 1) != 0;
      if (!target.has(g)) ok &= field == 0 && !negative;
      target.put(g, value(field, negative));
    }
    return !any(!ok);
  }

 private:
  static MQ_DEVICE T value(std::uint32_t field, bool negative) {
    if (field == 0 && negative) return nan_value<T>();
    return bits_as<T>((Word{field} << kMantissa) | (negative ? BitsOf<T>::kSign : Word{0}));
  }
  static MQ_DEVICE void put(std::byte* wire, std::uint32_t field, bool negative) {
    wire[lane()] = static_cast<std::byte>(field & 0xff);
    if constexpr (sizeof(T) == 8) pack_codes(wire + 32, 3, field >> 8);
    const std::uint32_t signs = ballot(negative);
    if (lane() < 4) wire[Wire::kGroup - 4 + lane()] = static_cast<std::byte>(signs >> (8 * lane()));
  }
};

template <class Element>
struct RangeFloatBlocks {
  using T = Element;
  using Settings = kernels::FloatRange<T>;
  using Word = typename BitsOf<T>::Word;

  static MQ_DEVICE std::uint32_t bytes(const Settings& range, std::uint32_t n) {
    return static_cast<std::uint32_t>(range.wire_bytes(n));
  }

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(const Settings& range, const BlockSource<T, F>& source, BlockRandom&,
                                        std::byte* wire) {
    Word top = range.top;
    if (range.own) {
      top = range.within(range.rounded(greatest_pattern(source)));
      if (lane() == 0) store(wire, top);
      wire += sizeof top;
    }
    const Coder coder(range, top);
    std::uint64_t nonfinite = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g, wire += range.group()) {
      const T v = source.v(g);
      const bool exists = source.index(g) < source.n, finite = is_finite(v);
      const std::uint32_t code = finite ? coder.code_of(v) : coder.mark_of(v);
      source.keep(g, finite ? v - coder.value_of(code) : T{0});
      pack_codes(wire, range.bits, exists ? code : 0);
      nonfinite += count_ones(ballot(exists && !finite));
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(const Settings& range, const BlockTarget<T, kAdd>& target,
                               const std::byte* wire) {
    Word top = range.top;
    if (range.own) {
      top = load<Word>(wire);
      if (top != range.within(top)) return false;
      wire += sizeof top;
    }
    const Coder coder(range, top);
    bool ok = true;
    for (std::uint32_t g = 0; g < groups_of(target.n); ++g, wire += range.group()) {
      const std::uint32_t code = unpack_code(wire, range.bits);
      if (!target.has(g)) ok &= code == 0;
      target.put(g, coder.value_of(code));
    }
    return !any(!ok);
  }

  // The codes of numbers; fft.cuh uses them, too.
  struct Coder {
    int bits, drop;
    Word before, most, least;  // the cut pattern of code 0, if it were one more number; patterns
    MQ_DEVICE Coder(const Settings& range, Word top)
        : bits(range.bits),
          drop(range.drop),
          before(top - range.codes),
          most(top << drop),
          least((top - range.codes + 1) << drop) {}

    MQ_DEVICE std::uint32_t sign() const { return 1u << (bits - 1); }
    static MQ_DEVICE bool is_negative(T v) { return (bits_as<Word>(v) & BitsOf<T>::kSign) != 0; }
    // Patterns of magnitudes have their order.
    MQ_DEVICE std::uint32_t code_of(T v) const {
      const Word magnitude = smaller(bits_as<Word>(v) & ~BitsOf<T>::kSign, most);
      if (!(bits_as<T>(magnitude) >= bits_as<T>(least) * T{0.5F})) return 0;
      const Word pattern = greater(magnitude, least) + (Word{1} << (drop - 1));
      return static_cast<std::uint32_t>((pattern >> drop) - before) | (is_negative(v) ? sign() : 0);
    }
    // The code of a number that is not finite.
    MQ_DEVICE std::uint32_t mark_of(T v) const {
      return v != v ? sign() : (sign() - 1) | (is_negative(v) ? sign() : 0);
    }
    MQ_DEVICE T value_of(std::uint32_t code) const {
      const std::uint32_t number = code & (sign() - 1);
      if (number == 0) return code != 0 ? nan_value<T>() : T{0};
      const Word magnitude = number >= sign() - 1 ? BitsOf<T>::kInf : (Word{number} + before) << drop;
      return bits_as<T>(magnitude | ((code & sign()) != 0 ? BitsOf<T>::kSign : Word{0}));
    }
  };
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(natural, NaturalBlocks)
MQ_BLOCK_KERNELS(range_float, RangeFloatBlocks)
