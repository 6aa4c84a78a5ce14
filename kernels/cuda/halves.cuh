// bf16(round=stochastic) and f16(scale=block) on a GPU: twins of Bf16::dithered in codecs/bf16-inl.hpp and of ScaledHalves
// in codecs/f16-inl.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/halves.hpp"

namespace mq::simt {

template <class Element>
struct DitheredBlocks {
  using T = Element;
  using Settings = kernels::block_rows::Fixed;
  using Word = typename BitsOf<T>::Word;
  static constexpr int kDropped = (sizeof(T) == 4 ? 23 : 52) - 7;
  static constexpr Word kKept = ~((Word{1} << kDropped) - 1);

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) { return 2 * n; }

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(Settings, const BlockSource<T, F>& source, BlockRandom& random,
                                        std::byte* wire) {
    const T most = static_cast<T>(0x1.fep127);
    std::uint64_t nonfinite = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      const T v = source.v(g);
      const bool exists = source.index(g) < source.n, finite = is_finite(v);
      const Word dither = static_cast<Word>(random.bits_at(g)) << (kDropped - 16);
      const T rounded = bits_as<T>((bits_as<Word>(v) + dither) & kKept);
      const std::uint16_t code =
          Bf16Code::from(as_float(finite ? smaller(greater(rounded, -most), most) : v));
      const T decoded = from_float<T>(Bf16Code::to(code));
      source.keep(g, is_finite(decoded) ? v - decoded : T{0});
      if (exists) store(wire + 2 * source.index(g), code);
      nonfinite += count_ones(ballot(exists && !finite));
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd>& target, const std::byte* wire) {
    for (std::uint32_t g = 0; g < groups_of(target.n); ++g)
      if (target.has(g))
        target.put(g, from_float<T>(Bf16Code::to(load<std::uint16_t>(wire + 2 * target.index(g)))));
    return true;
  }
};

template <class Element>
struct ScaledHalfBlocks {
  using T = Element;
  using Settings = kernels::block_rows::Fixed;
  using Word = typename BitsOf<T>::Word;
  using Wire = kernels::ScaledHalfWire<T>;
  using Scale = typename Wire::Scale;
  static constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(Wire::bytes(n));
  }

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(Settings, const BlockSource<T, F>& source, BlockRandom&,
                                        std::byte* wire) {
    const int field = static_cast<int>(greatest_pattern(source) >> kMantissa);
    const int scale = smaller(greater(field, Wire::kTop + 1), Wire::kGreatest) - Wire::kTop;
    if (lane() == 0)
      for (std::uint32_t i = 0; i < sizeof(Scale); ++i) wire[i] = static_cast<std::byte>(scale >> (8 * i));
    wire += sizeof(Scale);
    const T up = power(Wire::kGreatest - scale), most = static_cast<T>(0x1.ffcp14);
    std::uint64_t nonfinite = 0;
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      const T v = source.v(g);
      const bool exists = source.index(g) < source.n, finite = is_finite(v);
      T scaled = product(v, up);
      // Rounding up must not decode to more than the greatest number of T.
      if (finite && scale == Wire::kGreatest - Wire::kTop) scaled = smaller(greater(scaled, -most), most);
      const std::uint16_t code = F16Code::from(as_float(scaled));
      source.keep(g, finite ? v - decoded(code, scale) : T{0});
      if (exists) store(wire + 2 * source.index(g), code);
      nonfinite += count_ones(ballot(exists && !finite));
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd>& target, const std::byte* wire) {
    int scale = 0;
    for (std::uint32_t i = 0; i < sizeof(Scale); ++i) scale |= static_cast<int>(wire[i]) << (8 * i);
    if (scale < 1 || scale > Wire::kGreatest - Wire::kTop) return false;
    wire += sizeof(Scale);
    for (std::uint32_t g = 0; g < groups_of(target.n); ++g)
      if (target.has(g)) target.put(g, decoded(load<std::uint16_t>(wire + 2 * target.index(g)), scale));
    return true;
  }

 private:
  // 2^(field - bias).
  static MQ_DEVICE T power(int field) { return bits_as<T>(static_cast<Word>(field) << kMantissa); }
  // v f. A NaN keeps its payload, as on x86.
  static MQ_DEVICE T product(T v, T f) { return v == v ? v * f : quiet(v); }
  static MQ_DEVICE T decoded(std::uint16_t code, int scale) {
    return product(from_float<T>(F16Code::to(code)), power(scale));
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(dithered_bf16, DitheredBlocks)
MQ_BLOCK_KERNELS(scaled_f16, ScaledHalfBlocks)
