// mxfp8, mxfp6, mxfp4 and minifloat on a GPU: the host's loops are in host-inl.hpp. Eight lanes have a group
// of 32 elements.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/microscaled/microscaled.hpp"

namespace mq::simt {

// One small float at a time. Elements are scaled first and then rounded; the host's SmallFloats
// (floats-inl.hpp) round 32 with a unit that has the scale of their group in it.
template <class T>
struct SmallFloatCoder {
  using Numbers = kernels::FloatBits<T>;
  using Word = typename BitsOf<T>::Word;

  kernels::SmallFloat format;
  int drop;
  Word offset;
  T least, half_least, rounder, most;

  explicit MQ_DEVICE SmallFloatCoder(const kernels::SmallFloat& f)
      : format(f),
        drop(f.dropped<T>()),
        offset(f.offset<T>()),
        least(Numbers::power(f.least())),
        half_least(Numbers::power(f.least() - 1)),
        rounder(T{1.5F} * Numbers::power(drop)),
        most(f.magnitude<T>(f.max_code)) {}

  static MQ_DEVICE T magnitude_of(T v) { return bits_as<T>(bits_as<Word>(v) & ~BitsOf<T>::kSign); }
  static MQ_DEVICE T with_sign(T magnitude, T v) {
    return bits_as<T>(bits_as<Word>(magnitude) | (bits_as<Word>(v) & BitsOf<T>::kSign));
  }

  // Patterns of magnitudes have their order; to compare them as integers takes one instruction, as floats
  // two.
  MQ_DEVICE T rounded_magnitude(T v) const {
    const Word magnitude = smaller(bits_as<Word>(v) & ~BitsOf<T>::kSign, bits_as<Word>(most));
    const T by = bits_as<T>(greater(magnitude, bits_as<Word>(least)) & BitsOf<T>::kInf) * rounder;
    return (bits_as<T>(magnitude) + by) - by;
  }
  // Bits above the format's are not defined.
  MQ_DEVICE std::uint32_t code(T magnitude, T v) const {
    const Word aligned = greater(bits_as<Word>(magnitude), bits_as<Word>(magnitude * T{0.5F} + half_least));
    const Word number = (aligned >> drop) - offset;
    const Word sign = bits_as<Word>(v) >> (static_cast<int>(8 * sizeof(T)) - format.bits());
    return static_cast<std::uint32_t>(number | (sign & format.sign()));
  }
  // The magnitude of a code without its sign, with the sign of the code.
  MQ_DEVICE T value(std::uint32_t code) const {
    const T normal = bits_as<T>((Word{code & (format.sign() - 1)} << drop) + (offset << drop));
    const Word magnitude = smaller(bits_as<Word>(normal), bits_as<Word>((normal + normal) - least));
    return bits_as<T>(magnitude | Word{code & format.sign()}
                                      << (8 * sizeof(T) - static_cast<std::size_t>(format.bits())));
  }
};

template <class Element>
struct MicroscaledBlocks {
  using T = Element;
  using Settings = kernels::SmallFloat;
  using Format = kernels::Microscale<T>;
  using Scale = typename Format::Scale;
  using Coder = SmallFloatCoder<T>;
  using Word = typename BitsOf<T>::Word;
  using Numbers = kernels::FloatBits<T>;

  static MQ_DEVICE std::uint32_t bytes(const Settings& format, std::uint32_t n) {
    return static_cast<std::uint32_t>(Format::wire_bytes(format, n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(const Settings& format, const Source& source, BlockRandom&,
                                        std::byte* wire) {
    std::byte* const codes = wire + groups_of(source.n) * sizeof(Scale);
    return with_bits<Source::kUsual>(format.bits(),
                                     [&](auto bits) { return code<bits>(format, source, wire, codes); });
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(const Settings& format, const BlockTarget<T, kAdd, kWhole>& target,
                               const std::byte* wire) {
    const std::byte* const codes = wire + groups_of(target.n) * sizeof(Scale);
    return with_bits<kWhole>(format.bits(),
                             [&](auto bits) { return values<bits>(format, target, wire, codes); });
  }

 private:
  // Eight neighbouring lanes have the quads of a group of 32 elements.
  static MQ_DEVICE Word greatest_of_group(Word v) {
    for (std::uint32_t d = 4; d > 0; d /= 2) v = greater(v, shuffle_xor(v, d));
    return v;
  }
  static MQ_DEVICE std::uint32_t stride_of(const Settings& format) {
    return static_cast<std::uint32_t>(Format::group_bytes(format));
  }

  template <int kBits, class Source>
  static MQ_DEVICE std::uint64_t code(const Settings& format, const Source& source, std::byte* scales,
                                      std::byte* wire) {
    const Coder coder(format);
    const std::uint32_t stride = stride_of(format);
    std::uint32_t nonfinite = 0;
    BlockQuads<Source>(source).each([&](std::uint32_t stripe, const Quad<T>& v) {
      Word most = 0;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j)
        most = greater(most, bits_as<Word>(Coder::magnitude_of(v.of[j])));
      most = greatest_of_group(most);
      const bool marked = most >= BitsOf<T>::kInf;
      const int scale = greater(static_cast<int>(most >> Numbers::kMantissa) - format.greatest(), 0);
      const T up = Numbers::power_of_field(2 * static_cast<int>(Numbers::kBias) - scale),
              down = Numbers::power_of_field(scale);
      std::uint32_t codes[kQuad];
      Quad<T> error;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const T magnitude = coder.rounded_magnitude(v.of[j] * up);
        error.of[j] = v.of[j] - Coder::with_sign(magnitude, v.of[j]) * down;
        codes[j] = source.has(stripe, j) ? coder.code(magnitude, v.of[j]) : 0;
      }
      if (any(marked)) {
        for (std::uint32_t j = 0; j < kQuad; ++j) {
          const bool finite = is_finite(v.of[j]);
          if (marked) error.of[j] = finite ? v.of[j] : T{0};
          if (marked) codes[j] = source.has(stripe, j) ? kernels::lane_mark(v.of[j], source.keeps) : 0;
          nonfinite += !finite;
        }
      }
      source.keep(stripe, error);
      if (source.has_group(stripe) && lane() % 8 == 0)
        set_scale(scales + (4 * stripe + lane() / 8) * sizeof(Scale),
                  marked ? Format::kMarked : static_cast<Scale>(scale));
      pack_stripe<kBits>(wire + 4 * stripe * stride, stride, format.bits(), source.has_group(stripe),
                         in_bytes(codes));
    });
    return any(nonfinite != 0) ? warp_sum(nonfinite) : 0;
  }

  template <int kBits, bool kAdd, bool kWhole>
  static MQ_DEVICE bool values(const Settings& format, const BlockTarget<T, kAdd, kWhole>& target,
                               const std::byte* scales, const std::byte* wire) {
    const Coder coder(format);
    const std::uint32_t stride = stride_of(format);
    bool ok = true;
    target.put_stripes([&](std::uint32_t stripe) {
      const bool exists = target.has_group(stripe);
      const std::uint32_t codes =
          unpack_stripe<kBits>(wire + 4 * stripe * stride, stride, format.bits(), exists);
      const Scale scale = exists ? get_scale(scales + (4 * stripe + lane() / 8) * sizeof(Scale)) : Scale{0};
      const bool marked = scale == Format::kMarked;
      const T by = Numbers::power_of_field(scale);
      Quad<T> v;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const std::uint32_t code = byte_of(codes, j);
        if (!target.has(stripe, j)) ok &= code == 0;
        ok &= marked || (code & (format.sign() - 1)) <= format.max_code;
        v.of[j] = coder.value(code) * by;
      }
      ok &= marked || Format::in_range(scale, format);
      if (any(marked)) {
        const bool some = greatest_of_group(codes) != 0;
        for (std::uint32_t j = 0; j < kQuad; ++j) {
          if (!marked) continue;
          ok &= some && kernels::is_lane_mark(byte_of(codes, j));
          v.of[j] = kernels::lane_mark_value<T>(byte_of(codes, j));
        }
      }
      return v;
    });
    return !any(!ok);
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
