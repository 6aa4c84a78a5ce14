// nvfp4 on a GPU: the twin of codecs/nvfp4-inl.hpp. A lane has the two scales of the group of 32 with its number.
#pragma once

#include "kernels/cuda/microscaled.cuh"

namespace mq::simt {

template <class Element>
struct TwoScaleBlocks {
  using T = Element;
  using Settings = kernels::block_rows::Fixed;
  using Wire = kernels::TwoScaleWire<T>;
  using Coder = SmallFloatCoder<T>;
  using Word = typename BitsOf<T>::Word;
  // Coders of the elements and of the scales.
  static MQ_DEVICE Coder element_coder() {
    constexpr kernels::SmallFloat kFormat = kernels::kE2M1;
    return Coder(kFormat);
  }
  static MQ_DEVICE Coder scale_coder() {
    constexpr kernels::SmallFloat kFormat = kernels::kE4M3;
    return Coder(kFormat);
  }
  static constexpr int kBits = kernels::kE2M1.bits();

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(Wire::bytes(n));
  }

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(Settings, const BlockSource<T, F>& source, BlockRandom&,
                                        std::byte* wire) {
    const std::uint32_t groups = groups_of(source.n);
    const Scales scales = measure(source);
    if (lane() == 0) store(wire, scales.unit);
    wire += sizeof(T);
    if (lane() < groups)
      for (std::uint32_t half = 0; half < 2; ++half)
        wire[2 * lane() + half] = static_cast<std::byte>(scales.code[half]);
    wire += 2 * groups;
    const Coder coder = element_coder();
    std::uint64_t nonfinite = 0;
    for (std::uint32_t g = 0; g < groups; ++g, wire += Wire::kCodeBytes) {
      const T v = source.v(g);
      const bool exists = source.index(g) < source.n, finite = is_finite(v);
      const Mine mine(scales, g);
      const T step = mine.value * scales.unit, inverse = step > T{0} ? T{1} / step : T{0};
      const T clean = finite ? v : T{0};
      const T magnitude = coder.rounded_magnitude(clean * inverse);
      source.keep(g, clean - Coder::with_sign(magnitude, clean) * step);
      const std::uint32_t code =
          mine.code == Wire::kMarked ? mark_of(v, source.keeps) : coder.code(magnitude, clean);
      pack_codes(wire, kBits, exists ? code : 0);
      nonfinite += count_ones(ballot(exists && !finite));
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd>& target, const std::byte* wire) {
    const std::uint32_t groups = groups_of(target.n);
    const Coder coder = element_coder(), scaler = scale_coder();
    Scales scales{load<T>(wire), {0, 0}, {}};
    if ((bits_as<Word>(scales.unit) & BitsOf<T>::kSign) != 0 || !in_range(scales.unit)) return false;
    wire += sizeof(T);
    bool ok = true;
    for (std::uint32_t half = 0; half < 2; ++half) {
      if (lane() < groups) scales.code[half] = static_cast<std::uint32_t>(wire[2 * lane() + half]);
      ok &= scales.code[half] <= Wire::kMarked;
      scales.value[half] = scaler.value(scales.code[half] & 0x7f);
    }
    wire += 2 * groups;
    for (std::uint32_t g = 0; g < groups; ++g, wire += Wire::kCodeBytes) {
      const std::uint32_t code = unpack_code(wire, kBits);
      if (!target.has(g)) ok &= code == 0;
      const Mine mine(scales, g);
      const std::uint32_t some = ballot(code != 0) & (lane() < 16 ? 0xffffu : 0xffff0000u);
      const bool marked = mine.code == Wire::kMarked;
      if (marked) ok &= is_mark(code) && some != 0;
      target.put(g, marked ? marked_value<T>(code) : coder.value(code) * (mine.value * scales.unit));
    }
    return !any(!ok);
  }

 private:
  // The scales of this lane's group, for each half of it: as on the wire, and as a number in units of `unit`.
  struct Scales {
    T unit;
    std::uint32_t code[2];
    T value[2];
  };
  // The scale of this lane's element of group g.
  struct Mine {
    std::uint32_t code;
    T value;
    MQ_DEVICE Mine(const Scales& scales, std::uint32_t g) {
      const std::uint32_t codes[2]{shuffle(scales.code[0], g), shuffle(scales.code[1], g)};
      const T values[2]{bits_as<T>(shuffle(bits_as<Word>(scales.value[0]), g)),
                        bits_as<T>(shuffle(bits_as<Word>(scales.value[1]), g))};
      code = codes[lane() / 16];
      value = values[lane() / 16];
    }
  };

  static MQ_DEVICE bool in_range(T unit) { return is_finite(Wire::kMostScale * unit * Wire::kMostCode); }

  template <kernels::Feedback F>
  static MQ_DEVICE Scales measure(const BlockSource<T, F>& source) {
    Word most[2]{};  // patterns of the greatest magnitudes; those of NaN and Inf are the greatest
    for (std::uint32_t g = 0; g < groups_of(source.n); ++g) {
      Word v = bits_as<Word>(source.v(g)) & ~BitsOf<T>::kSign;
      for (std::uint32_t d = 8; d > 0; d /= 2) v = greater(v, shuffle_xor(v, d));
      const Word low = shuffle(v, 0), high = shuffle(v, 16);
      if (lane() == g) most[0] = low, most[1] = high;
    }
    Word finite[2];
    for (int half = 0; half < 2; ++half) finite[half] = most[half] < BitsOf<T>::kInf ? most[half] : Word{0};
    const T greatest = bits_as<T>(warp_max(greater(finite[0], finite[1])));
    Scales scales{};
    scales.unit = greatest < Wire::kTiny ? T{0} : greatest / (Wire::kMostCode * Wire::kMostScale);
    if (!in_range(scales.unit)) scales.unit *= static_cast<T>(1 - 0x1p-20);
    const Coder coder = scale_coder();
    const T per_unit = scales.unit > T{0} ? T{1} / scales.unit : T{0}, sixth = T{1} / Wire::kMostCode;
    for (int half = 0; half < 2; ++half) {
      const T rounded = coder.rounded_magnitude(bits_as<T>(finite[half]) * sixth * per_unit);
      scales.value[half] = rounded;
      scales.code[half] = most[half] < BitsOf<T>::kInf ? coder.code(rounded, rounded) : Wire::kMarked;
    }
    return scales;
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(two_scales, TwoScaleBlocks)
