// mxfp8, mxfp6, mxfp4 and minifloat on a GPU: the device twin of the host's family Microscaled. A group of 32 elements is
// what a warp has in its lanes.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/small_floats.hpp"

namespace mq::simt {

// One small float at a time: the host's SmallFloats (host/small_floats-inl.hpp).
template <class T>
struct SmallFloatCoder {
  using Word = typename BitsOf<T>::Word;
  static constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  static constexpr Word kBias = sizeof(T) == 4 ? 127 : 1023;

  kernels::SmallFloat format;
  int drop;
  Word offset;
  T least, half_least, rounder, most;

  explicit MQ_DEVICE SmallFloatCoder(const kernels::SmallFloat& f)
      : format(f),
        drop(kMantissa - f.mantissa),
        offset((kBias - 1 + static_cast<Word>(static_cast<std::int64_t>(f.least()))) << f.mantissa),
        least(power(f.least())),
        half_least(power(f.least() - 1)),
        rounder(T{1.5F} * power(drop)),
        most(value(f.max_code)) {}

  static MQ_DEVICE T power(int exponent) {
    return bits_as<T>((kBias + static_cast<Word>(static_cast<std::int64_t>(exponent))) << kMantissa);
  }
  static MQ_DEVICE T magnitude_of(T v) { return bits_as<T>(bits_as<Word>(v) & ~BitsOf<T>::kSign); }
  static MQ_DEVICE T with_sign(T magnitude, T v) {
    return bits_as<T>(bits_as<Word>(magnitude) | (bits_as<Word>(v) & BitsOf<T>::kSign));
  }

  MQ_DEVICE T rounded_magnitude(T v) const {
    const T magnitude = smaller(magnitude_of(v), most);
    const T by = bits_as<T>(bits_as<Word>(greater(magnitude, least)) & BitsOf<T>::kInf) * rounder;
    return (magnitude + by) - by;
  }
  MQ_DEVICE std::uint32_t code(T magnitude, T v) const {
    const T aligned = greater(magnitude, magnitude * T{0.5F} + half_least);
    const Word number = (bits_as<Word>(aligned) >> drop) - offset;
    const Word sign = bits_as<Word>(v) >> (static_cast<int>(8 * sizeof(T)) - format.bits());
    return static_cast<std::uint32_t>(number | (sign & format.sign())) & 0xff;
  }
  // The magnitude of a code without its sign, with the sign of the code.
  MQ_DEVICE T value(std::uint32_t code) const {
    const T normal = bits_as<T>((Word{code & (format.sign() - 1)} << drop) + (offset << drop));
    const T magnitude = smaller(normal, (normal + normal) - least);
    return (code & format.sign()) != 0 ? -magnitude : magnitude;
  }
};

// The code of an element of a marked group (kernels::LaneMark); keeps: there is a residual, where finite ones stay.
template <class T>
MQ_DEVICE std::uint32_t mark_of(T v, bool keeps) {
  using Mark = kernels::LaneMark;
  const Mark mark = is_finite(v) ? (keeps ? Mark::kept : Mark::nan)
                    : v != v     ? Mark::nan
                    : v > T{0}   ? Mark::above
                                 : Mark::below;
  return static_cast<std::uint32_t>(mark);
}
MQ_DEVICE bool is_mark(std::uint32_t code) {
  return code <= static_cast<std::uint32_t>(kernels::LaneMark::below);
}
template <class T>
MQ_DEVICE T marked_value(std::uint32_t code) {
  constexpr T kValues[]{T{0}, nan_value<T>(), infinite_value<T>(), -infinite_value<T>()};
  return kValues[code % 4];
}

template <class Element>
struct MicroscaledBlocks {
  using T = Element;
  using Settings = kernels::SmallFloat;
  using Format = kernels::Microscale<T>;
  using Scale = typename Format::Scale;
  using Coder = SmallFloatCoder<T>;
  using Word = typename BitsOf<T>::Word;

  static MQ_DEVICE std::uint32_t bytes(const Settings& format, std::uint32_t n) {
    return static_cast<std::uint32_t>(Format::wire_bytes(format, n));
  }

  template <kernels::Feedback F>
  static MQ_DEVICE std::uint64_t encode(const Settings& format, const BlockSource<T, F>& source, BlockRandom&,
                                        std::byte* wire) {
    const Coder coder(format);
    const std::uint32_t groups = groups_of(source.n);
    std::byte* codes = wire + groups * sizeof(Scale);
    std::uint64_t nonfinite = 0;
    for (std::uint32_t g = 0; g < groups; ++g, codes += Format::group_bytes(format)) {
      const T v = source.v(g);
      const bool exists = source.index(g) < source.n, finite = is_finite(v);
      const auto most = warp_max(bits_as<Word>(Coder::magnitude_of(v)));
      Scale scale = Format::kMarked;
      std::uint32_t code = 0;
      if (most < BitsOf<T>::kInf) {
        scale =
            static_cast<Scale>(greater(static_cast<int>(most >> Coder::kMantissa) - format.greatest(), 0));
        const T magnitude = coder.rounded_magnitude(v * field(2 * static_cast<int>(Coder::kBias) - scale));
        source.keep(g, v - Coder::with_sign(magnitude, v) * field(scale));
        code = exists ? coder.code(magnitude, v) : 0;
      } else {
        nonfinite += count_ones(ballot(!finite));
        source.keep(g, finite ? v : T{0});
        code = exists ? mark_of(v, source.keeps) : 0;
      }
      if (lane() == 0) set_scale(wire + g * sizeof(Scale), scale);
      pack_codes(codes, format.bits(), code);
    }
    return nonfinite;
  }

  template <bool kAdd>
  static MQ_DEVICE bool decode(const Settings& format, const BlockTarget<T, kAdd>& target,
                               const std::byte* wire) {
    const Coder coder(format);
    const std::uint32_t groups = groups_of(target.n);
    const std::byte* codes = wire + groups * sizeof(Scale);
    bool ok = true;
    for (std::uint32_t g = 0; g < groups; ++g, codes += Format::group_bytes(format)) {
      const Scale scale = get_scale(wire + g * sizeof(Scale));
      const std::uint32_t code = unpack_code(codes, format.bits());
      if (!target.has(g)) ok &= code == 0;
      if (scale == Format::kMarked) {
        ok &= is_mark(code);
        ok &= any(code != 0);
        target.put(g, marked_value<T>(code));
      } else {
        ok &= static_cast<int>(scale) + format.greatest() <= 2 * static_cast<int>(Coder::kBias);
        ok &= (code & (format.sign() - 1)) <= format.max_code;
        target.put(g, coder.value(code) * field(scale));
      }
    }
    return !any(!ok);
  }

 private:
  // 2^(f - bias), also where that is subnormal.
  static MQ_DEVICE T field(int f) {
    return bits_as<T>(f > 0 ? static_cast<Word>(f) << Coder::kMantissa : Word{1} << (Coder::kMantissa - 1));
  }
  static MQ_DEVICE void set_scale(std::byte* at, Scale scale) {
    for (std::uint32_t i = 0; i < sizeof scale; ++i) at[i] = static_cast<std::byte>(scale >> (8 * i));
  }
  static MQ_DEVICE Scale get_scale(const std::byte* at) {
    std::uint32_t scale = 0;
    for (std::uint32_t i = 0; i < sizeof(Scale); ++i) scale |= static_cast<std::uint32_t>(at[i]) << (8 * i);
    return static_cast<Scale>(scale);
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(microscaled, MicroscaledBlocks)
