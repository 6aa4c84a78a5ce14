// bf16(round=stochastic) and f16(scale=block) on a GPU. Scales are in halves.hpp, rounding at random is in
// dither-inl.hpp; the host's loops are in bf16.hpp and f16.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/halves/halves.hpp"

namespace mq::simt {
#include "kernels/halves/dither-inl.hpp"

// The codes of this lane's quad of a stripe, two bytes each, at any address.
template <class Source>
MQ_DEVICE void put_halves(const Source& source, std::byte* wire, std::uint32_t stripe,
                          const Quad<std::uint16_t>& codes) {
  wire += 2 * source.first(stripe);
  if (source.has(stripe, kQuad - 1)) return store(wire, bits_as<std::uint64_t>(codes));
  for (std::uint32_t j = 0; j < kQuad; ++j)
    if (source.has(stripe, j)) store(wire + 2 * j, codes.of[j]);
}
template <class Target>
MQ_DEVICE Quad<std::uint16_t> take_halves(const Target& target, const std::byte* wire, std::uint32_t stripe) {
  wire += 2 * target.first(stripe);
  Quad<std::uint16_t> codes{};
  if (target.has(stripe, kQuad - 1)) return bits_as<Quad<std::uint16_t>>(load<std::uint64_t>(wire));
  for (std::uint32_t j = 0; j < kQuad; ++j)
    if (target.has(stripe, j)) codes.of[j] = load<std::uint16_t>(wire + 2 * j);
  return codes;
}

template <class Element>
struct DitheredBf16Blocks {
  using T = Element;
  using L = Lane<T>;
  using Settings = kernels::block_rows::Fixed;

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) { return 2 * n; }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(Settings, const Source& source, BlockRandom& random,
                                        std::byte* wire) {
    std::uint32_t nonfinite = 0;
    BlockQuads<Source>(source).each([&](std::uint32_t stripe, const Quad<T>& v) {
      Quad<std::uint16_t> codes;
      Quad<T> error;
      std::uint32_t noise[kQuad];
      random.bits_of_quad(source.first(stripe), noise);
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const bool finite = is_finite(v.of[j]);
        const T rounded = finite ? dithered_bf16<T>(L{v.of[j]}, L::all_bits(noise[j])).v : v.of[j];
        codes.of[j] = Bf16Code::from(as_float(rounded));
        const T decoded = from_float<T>(Bf16Code::to(codes.of[j]));
        error.of[j] = is_finite(decoded) ? v.of[j] - decoded : T{0};
        nonfinite += !finite;
      }
      source.keep(stripe, error);
      put_halves(source, wire, stripe, codes);
    });
    return any(nonfinite != 0) ? warp_sum(nonfinite) : 0;
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd, kWhole>& target, const std::byte* wire) {
    target.put_stripes([&](std::uint32_t stripe) {
      const auto codes = take_halves(target, wire, stripe);
      Quad<T> v;
      for (std::uint32_t j = 0; j < kQuad; ++j) v.of[j] = from_float<T>(Bf16Code::to(codes.of[j]));
      return v;
    });
    return true;
  }
};

template <class Element>
struct ScaledF16Blocks {
  using T = Element;
  using Settings = kernels::block_rows::Fixed;
  using Wire = kernels::ScaledHalfWire<T>;
  using Scale = typename Wire::Scale;
  using Numbers = kernels::FloatBits<T>;

  static MQ_DEVICE std::uint32_t bytes(Settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(Wire::bytes(n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(Settings, const Source& source, BlockRandom&, std::byte* wire) {
    BlockQuads<Source> quads(source);
    const auto most = quads.greatest_finite(quads.greatest());
    const int scale = Wire::scale_of(static_cast<int>(most >> Numbers::kMantissa));
    if (lane() == 0)
      for (std::uint32_t i = 0; i < sizeof(Scale); ++i) wire[i] = static_cast<std::byte>(scale >> (8 * i));
    wire += sizeof(Scale);
    const T up = Wire::up(scale);
    std::uint32_t nonfinite = 0;
    quads.each([&](std::uint32_t stripe, const Quad<T>& v) {
      Quad<std::uint16_t> codes;
      Quad<T> error;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const bool finite = is_finite(v.of[j]);
        T scaled = product(v.of[j], up);
        if (finite && Wire::clamps(scale)) scaled = smaller(greater(scaled, -Wire::kMost), Wire::kMost);
        codes.of[j] = F16Code::from(as_float(scaled));
        error.of[j] = finite ? v.of[j] - decoded(codes.of[j], scale) : T{0};
        nonfinite += !finite;
      }
      source.keep(stripe, error);
      put_halves(source, wire, stripe, codes);
    });
    return any(nonfinite != 0) ? warp_sum(nonfinite) : 0;
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd, kWhole>& target, const std::byte* wire) {
    int scale = 0;
    for (std::uint32_t i = 0; i < sizeof(Scale); ++i) scale |= static_cast<int>(wire[i]) << (8 * i);
    if (!Wire::in_range(scale)) return false;
    wire += sizeof(Scale);
    target.put_stripes([&](std::uint32_t stripe) {
      const auto codes = take_halves(target, wire, stripe);
      Quad<T> v;
      for (std::uint32_t j = 0; j < kQuad; ++j) v.of[j] = decoded(codes.of[j], scale);
      return v;
    });
    return true;
  }

 private:
  // v f. A NaN keeps its payload, as on x86.
  static MQ_DEVICE T product(T v, T f) { return v == v ? v * f : quiet(v); }
  static MQ_DEVICE T decoded(std::uint16_t code, int scale) {
    return product(from_float<T>(F16Code::to(code)), Numbers::power_of_field(scale));
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(dithered_bf16, DitheredBf16Blocks)
MQ_BLOCK_KERNELS(scaled_f16, ScaledF16Blocks)
