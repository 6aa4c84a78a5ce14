// natural and rangefloat on a GPU: codes that are pieces of the elements' bit patterns. Their arithmetic is
// in coder-inl.hpp; the host's loops are in natural.hpp and rangefloat.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/patterns/natural_wire.hpp"
#include "kernels/patterns/range.hpp"

namespace mq::simt {
#include "kernels/patterns/coder-inl.hpp"

template <class Element>
struct NaturalBlocks {
  using T = Element;
  using L = Lane<T>;
  using Settings = kernels::block_rows::Fixed;
  using Word = typename BitsOf<T>::Word;
  using Wire = kernels::NaturalWire<T>;
  static constexpr int kMantissa = kernels::FloatBits<T>::kMantissa;

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(Wire::bytes(n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(Settings, const Source& source, BlockRandom& random,
                                        std::byte* wire) {
    std::uint32_t nonfinite = 0;
    BlockQuads<Source>(source).each([&](std::uint32_t stripe, const Quad<T>& v) {
      std::uint32_t field[kQuad], negative[kQuad], noise[kQuad];
      Quad<T> error;
      random.bits_of_quad(source.first(stripe), noise);
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const bool exists = source.has(stripe, j), finite = is_finite(v.of[j]), is_nan = v.of[j] != v.of[j];
        const L element{v.of[j]};
        const Word sent = (finite ? dithered_power<T>(element, L::all_bits(noise[j])) : element).bits();
        // minus zero is sent as zero
        negative[j] = exists && !(bits_as<T>(sent) >= T{0});
        field[j] =
            exists && !is_nan ? static_cast<std::uint32_t>((sent & ~BitsOf<T>::kSign) >> kMantissa) : 0;
        error.of[j] = finite ? v.of[j] - value(field[j], negative[j] != 0) : T{0};
        nonfinite += !finite;
      }
      source.keep(stripe, error);
      put(wire + 4 * stripe * Wire::kGroup, source.has_group(stripe), field, negative);
    });
    return any(nonfinite != 0) ? warp_sum(nonfinite) : 0;
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd, kWhole>& target, const std::byte* wire) {
    bool ok = true;
    target.put_stripes([&](std::uint32_t stripe) {
      const bool exists = target.has_group(stripe);
      const std::byte* const at = wire + 4 * stripe * Wire::kGroup;
      const std::uint32_t low = unpack_stripe<8>(at, Wire::kGroup, 8, exists);
      const std::uint32_t high = sizeof(T) == 8 ? unpack_stripe<3>(at + 32, Wire::kGroup, 3, exists) : 0;
      const std::uint32_t signs = unpack_stripe<1>(at + Wire::kGroup - 4, Wire::kGroup, 1, exists);
      Quad<T> v;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const std::uint32_t field = byte_of(low, j) | byte_of(high, j) << 8;
        const bool negative = byte_of(signs, j) != 0;
        if (!target.has(stripe, j)) ok &= field == 0 && !negative;
        v.of[j] = value(field, negative);
      }
      return v;
    });
    return !any(!ok);
  }

 private:
  static MQ_DEVICE T value(std::uint32_t field, bool negative) {
    if (field == 0 && negative) return nan_value<T>();
    return bits_as<T>((Word{field} << kMantissa) | (negative ? BitsOf<T>::kSign : Word{0}));
  }
  static MQ_DEVICE void put(std::byte* wire, bool exists, const std::uint32_t (&field)[kQuad],
                            const std::uint32_t (&negative)[kQuad]) {
    pack_stripe<8>(wire, Wire::kGroup, 8, exists, in_bytes(field));
    if constexpr (sizeof(T) == 8) {
      const std::uint32_t high[kQuad]{field[0] >> 8, field[1] >> 8, field[2] >> 8, field[3] >> 8};
      pack_stripe<3>(wire + 32, Wire::kGroup, 3, exists, in_bytes(high));
    }
    pack_stripe<1>(wire + Wire::kGroup - 4, Wire::kGroup, 1, exists, in_bytes(negative));
  }
};

template <class Element>
struct RangeFloatBlocks {
  using T = Element;
  using L = Lane<T>;
  using Coder = RangeCoder<T, L>;
  using Settings = kernels::FloatRange<T>;
  using Word = typename BitsOf<T>::Word;

  static MQ_DEVICE std::uint32_t bytes(const Settings& range, std::uint32_t n) {
    return static_cast<std::uint32_t>(range.wire_bytes(n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(const Settings& range, const Source& source, BlockRandom&,
                                        std::byte* wire) {
    BlockQuads<Source> quads(source);
    Word top = range.top;
    if (range.own) {
      top = range.within(range.rounded(quads.greatest_finite(quads.greatest())));
      if (lane() == 0) store(wire, top);
      wire += sizeof top;
    }
    return with_bits<Source::kUsual>(
        range.bits, [&](auto bits) { return code<bits>(range, Coder(range, top), source, quads, wire); });
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(const Settings& range, const BlockTarget<T, kAdd, kWhole>& target,
                               const std::byte* wire) {
    Word top = range.top;
    if (range.own) {
      top = load<Word>(wire);
      if (top != range.within(top)) return false;
      wire += sizeof top;
    }
    const Coder coder(range, top);
    return with_bits<kWhole>(range.bits, [&](auto bits) {
      const auto stride = static_cast<std::uint32_t>(range.group());
      bool ok = true;
      target.put_stripes([&](std::uint32_t stripe) {
        const std::uint32_t codes =
            unpack_stripe<bits>(wire + 4 * stripe * stride, stride, range.bits, target.has_group(stripe));
        Quad<T> v;
        MQ_UNROLL(4)
        for (std::uint32_t j = 0; j < kQuad; ++j) {
          if (!target.has(stripe, j)) ok &= byte_of(codes, j) == 0;
          v.of[j] = coder.value_of(L::all_bits(byte_of(codes, j))).v;
        }
        return v;
      });
      return !any(!ok);
    });
  }

 private:
  template <int kBits, class Source>
  static MQ_DEVICE std::uint64_t code(const Settings& range, const Coder& coder, const Source& source,
                                      BlockQuads<Source>& quads, std::byte* wire) {
    const auto stride = static_cast<std::uint32_t>(range.group());
    std::uint32_t nonfinite = 0;
    quads.each([&](std::uint32_t stripe, const Quad<T>& v) {
      std::uint32_t codes[kQuad];
      Quad<T> error;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const bool finite = is_finite(v.of[j]);
        const L element{v.of[j]};
        const auto rounded = coder.rounded(element);
        const L code = finite ? rounded.code : coder.mark_of(element);
        error.of[j] = finite ? v.of[j] - rounded.value.v : T{0};
        codes[j] = source.has(stripe, j) ? static_cast<std::uint32_t>(code.bits()) : 0;
        nonfinite += !finite;
      }
      source.keep(stripe, error);
      pack_stripe<kBits>(wire + 4 * stripe * stride, stride, range.bits, source.has_group(stripe),
                         in_bytes(codes));
    });
    return any(nonfinite != 0) ? warp_sum(nonfinite) : 0;
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(natural, NaturalBlocks)
MQ_BLOCK_KERNELS(range_float, RangeFloatBlocks)
