// int8, int4 and qsgd on a GPU: one warp codes a block. The quantizer and its place on the wire are in
// integers.hpp, the arithmetic of elements is in rounding-inl.hpp; the host's loops are in host-inl.hpp.
#pragma once

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/integers/integers.hpp"

namespace mq::simt {
#include "kernels/integers/rounding-inl.hpp"

template <class Element>
struct IntegerBlocks {
  using T = Element;
  using L = Lane<T>;
  using Settings = kernels::integers::Settings;
  using Quantizer = kernels::integers::Quantizer<T>;
  using Mark = kernels::integers::Mark;
  using StepRange = kernels::integers::StepRange;
  using Word = typename BitsOf<T>::Word;

  static MQ_DEVICE std::uint32_t bytes(const Settings& settings, std::uint32_t n) {
    return static_cast<std::uint32_t>(settings.template block_bytes<T>(n));
  }

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(const Settings& settings, const Source& source, BlockRandom& random,
                                        std::byte* wire) {
    BlockQuads<Source> quads(source);
    std::uint64_t nonfinite = 0;
    const Quantizer to = measure(settings, source, quads, nonfinite);
    if (lane() == 0) {
      store(wire, to.step_on_wire());
      if (settings.values() == 2) store(wire + sizeof(T), to.middle);
    }
    wire += settings.values() * sizeof(T);
    if (settings.stochastic)
      code<0, true>(settings, source, quads, to, random, wire);
    else
      with_bits<Source::kUsual>(
          settings.bits, [&](auto bits) { code<bits, false>(settings, source, quads, to, random, wire); });
    return nonfinite;
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(const Settings& settings, const BlockTarget<T, kAdd, kWhole>& target,
                               const std::byte* wire) {
    const T step = load<T>(wire);
    const T middle = settings.values() == 2 ? load<T>(wire + sizeof(T)) : T{0};
    const Quantizer from = Quantizer::of_wire(step, middle);
    if (!from.valid((bits_as<Word>(step) & BitsOf<T>::kSign) != 0, settings.limit())) return false;
    wire += settings.values() * sizeof(T);
    return with_bits<kWhole>(settings.bits,
                             [&](auto bits) { return values<bits>(settings, target, from, wire); });
  }

 private:
  static MQ_DEVICE std::uint32_t stride_of(const Settings& settings) {
    return 4 * static_cast<std::uint32_t>(settings.bits);  // of a group on the wire
  }

  template <int kBits, bool kStochastic, class Source>
  static MQ_DEVICE void code(const Settings& settings, const Source& source, BlockQuads<Source>& quads,
                             const Quantizer& to, BlockRandom& random, std::byte* wire) {
    const Rounding<L> rounding(to, settings.limit(), settings.zero());
    const std::uint32_t stride = stride_of(settings);
    const bool all_finite = to.mark == Mark::none;
    quads.each([&](std::uint32_t stripe, const Quad<T>& v) {
      std::uint32_t codes[kQuad], noise[kQuad];
      Quad<T> error;
      if constexpr (kStochastic) random.bits_of_quad(source.first(stripe), noise);
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const L steps = rounding.template steps<true>({v.of[j]});
        L quantized;
        if constexpr (kStochastic)
          quantized = rounding.quantize(steps, {BlockRandom::in_unit<T>(noise[j])});
        else
          quantized = rounding.quantize(steps);
        const bool is_sent = source.has(stripe, j) && (all_finite || is_finite(v.of[j]));
        error.of[j] = is_sent ? v.of[j] - rounding.template decoded<true>(quantized).v : T{0};
        codes[j] = is_sent ? static_cast<std::uint32_t>(quantized.bits()) : 0;
      }
      source.keep(stripe, error);
      pack_stripe<kBits>(wire + 4 * stripe * stride, stride, settings.bits, source.has_group(stripe),
                         in_bytes(codes));
    });
  }

  template <int kBits, bool kAdd, bool kWhole>
  static MQ_DEVICE bool values(const Settings& settings, const BlockTarget<T, kAdd, kWhole>& target,
                               const Quantizer& from, const std::byte* wire) {
    const std::uint32_t stride = stride_of(settings);
    const T zero = static_cast<T>(settings.zero()), mark = from.marked_value();
    const L step = L::all(from.step), middle = L::all(from.middle);
    const bool marked = from.mark != Mark::none;
    bool some_marked = false, padded = true;
    target.put_stripes([&](std::uint32_t stripe) {
      const std::uint32_t codes =
          unpack_stripe<kBits>(wire + 4 * stripe * stride, stride, settings.bits, target.has_group(stripe));
      Quad<T> v;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const std::uint32_t code = byte_of(codes, j);
        if (target.has(stripe, j))
          some_marked |= code == 0;
        else
          padded &= code == 0;
        v.of[j] =
            marked && code == 0 ? mark : dequantize(L{static_cast<T>(code) - zero}, step, middle, false).v;
      }
      return v;
    });
    return any(some_marked) == marked && !any(!padded);
  }

  template <class Source>
  static MQ_DEVICE Quantizer measure(const Settings& settings, const Source& source,
                                     BlockQuads<Source>& quads, std::uint64_t& nonfinite) {
    const Word most = quads.greatest();
    if (settings.range != StepRange::ends && most < BitsOf<T>::kInf) {
      const T magnitude = bits_as<T>(most);
      return Quantizer::of(T{0}, settings.range == StepRange::norm ? norm(quads, magnitude) : magnitude,
                           settings.limit(), Mark::none);
    }
    kernels::integers::Measured<T> all;
    quads.each([&](std::uint32_t stripe, const Quad<T>& v) {
      for (std::uint32_t j = 0; j < kQuad; ++j)
        if (source.has(stripe, j)) all.add(v.of[j]);
    });
    all.low = -warp_max(-all.low);
    all.high = warp_max(all.high);
    all.nonfinite = {warp_sum(all.nonfinite.above), warp_sum(all.nonfinite.below),
                     warp_sum(all.nonfinite.nan)};
    nonfinite = all.nonfinite.all();
    return all.quantizer(settings, settings.range == StepRange::norm ? norm(quads, all.magnitude()) : T{0});
  }

  // The Euclidean norm of the finite elements. The sum has the host's order, element after element: every
  // lane adds the elements of all lanes, one after the other.
  template <class Source>
  static MQ_DEVICE T norm(BlockQuads<Source>& quads, T most) {
    if (!(most >= Quantizer::kTiny)) return most;
    double sum = 0;
    quads.each([&](std::uint32_t, const Quad<T>& v) {
      double square[kQuad];
      for (std::uint32_t j = 0; j < kQuad; ++j) square[j] = kernels::integers::square_of_share(v.of[j], most);
      MQ_UNROLL(1)
      for (std::uint32_t i = 0; i < 32; ++i)
        for (std::uint32_t j = 0; j < kQuad; ++j) sum += shuffle(square[j], i);
    });
    return kernels::integers::norm_of(most, square_root(sum));
  }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(integers, IntegerBlocks)
