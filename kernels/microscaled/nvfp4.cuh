// nvfp4 on a GPU: nvfp4.hpp describes it and has the host's loops. The 16 elements that share a scale are the
// quads of four neighbouring lanes.
#pragma once

#include "kernels/microscaled/device.cuh"

namespace mq::simt {

template <class Element>
struct NvFp4Blocks {
  using T = Element;
  using Settings = kernels::block_rows::Fixed;
  using Wire = kernels::NvFp4Wire<T>;
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

  template <class Source>
  static MQ_DEVICE std::uint64_t encode(Settings, const Source& source, BlockRandom&, std::byte* wire) {
    const std::uint32_t stripes = stripes_of(source.n);
    BlockQuads<Source> quads(source);
    Word most[kStripes]{};  // of the 16 elements that share a scale, in this lane's quad and three neighbours
    Word of_block = 0;
    quads.each([&](std::uint32_t stripe, const Quad<T>& v) {
      Word m = 0;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) m = greater(m, pattern(v.of[j]));
      for (std::uint32_t d = 2; d > 0; d /= 2) m = greater(m, shuffle_xor(m, d));
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < kStripes; ++k)
        if (k == stripe) most[k] = m;
      if (m < BitsOf<T>::kInf) of_block = greater(of_block, m);
    });
    const T unit = Wire::unit_of(bits_as<T>(warp_max(of_block)));
    if (lane() == 0) store(wire, unit);
    wire += sizeof(T);
    std::byte* const codes = wire + 2 * groups_of(source.n);
    const Coder coder = element_coder(), scaler = scale_coder();
    const T per_unit = unit > T{0} ? T{1} / unit : T{0}, sixth = T{1} / Wire::kMostCode;
    std::uint32_t nonfinite = 0;
    quads.each([&](std::uint32_t stripe, const Quad<T>& v) {
      if (stripe >= stripes) return;
      Word own = 0;
      MQ_UNROLL(8)
      for (std::uint32_t k = 0; k < kStripes; ++k)
        if (k == stripe) own = most[k];
      const bool marked = own >= BitsOf<T>::kInf;
      const T scale = scaler.rounded_magnitude(bits_as<T>(marked ? Word{0} : own) * sixth * per_unit);
      const T step = scale * unit, inverse = step > T{0} ? T{1} / step : T{0};
      std::uint32_t code[kQuad];
      Quad<T> error;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const T clean = marked && !is_finite(v.of[j]) ? T{0} : v.of[j];
        const T magnitude = coder.rounded_magnitude(clean * inverse);
        error.of[j] = clean - Coder::with_sign(magnitude, clean) * step;
        code[j] = source.has(stripe, j) ? coder.code(magnitude, clean) : 0;
      }
      if (any(marked)) {
        for (std::uint32_t j = 0; j < kQuad; ++j) {
          if (marked) code[j] = source.has(stripe, j) ? kernels::lane_mark(v.of[j], source.keeps) : 0;
          nonfinite += !is_finite(v.of[j]);
        }
      }
      source.keep(stripe, error);
      if (source.has_group(stripe) && lane() % 4 == 0)
        wire[8 * stripe + lane() / 4] =
            static_cast<std::byte>(marked ? std::uint32_t{Wire::kMarked} : scaler.code(scale, scale));
      pack_stripe<kBits>(codes + 4 * stripe * Wire::kCodeBytes, Wire::kCodeBytes, kBits,
                         source.has_group(stripe), in_bytes(code));
    });
    return any(nonfinite != 0) ? warp_sum(nonfinite) : 0;
  }

  template <bool kAdd, bool kWhole>
  static MQ_DEVICE bool decode(Settings, const BlockTarget<T, kAdd, kWhole>& target, const std::byte* wire) {
    const Coder coder = element_coder(), scaler = scale_coder();
    const T unit = load<T>(wire);
    if ((bits_as<Word>(unit) & BitsOf<T>::kSign) != 0 || !Wire::in_range(unit)) return false;
    wire += sizeof(T);
    const std::byte* const codes_of = wire + 2 * groups_of(target.n);
    bool ok = true;
    target.put_stripes([&](std::uint32_t stripe) {
      const bool exists = target.has_group(stripe);
      const std::uint32_t codes =
          unpack_stripe<kBits>(codes_of + 4 * stripe * Wire::kCodeBytes, Wire::kCodeBytes, kBits, exists);
      const std::uint32_t scale = exists ? static_cast<std::uint32_t>(wire[8 * stripe + lane() / 4]) : 0;
      ok &= scale <= Wire::kMarked;
      const bool marked = scale == Wire::kMarked;
      const T step = scaler.value(scale & 0x7f) * unit;
      Quad<T> v;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kQuad; ++j) {
        const std::uint32_t code = byte_of(codes, j);
        if (!target.has(stripe, j)) ok &= code == 0;
        v.of[j] = coder.value(code) * step;
      }
      if (any(marked)) {
        std::uint32_t some = codes;
        for (std::uint32_t d = 2; d > 0; d /= 2) some |= shuffle_xor(some, d);
        for (std::uint32_t j = 0; j < kQuad; ++j) {
          if (!marked) continue;
          ok &= some != 0 && kernels::is_lane_mark(byte_of(codes, j));
          v.of[j] = kernels::lane_mark_value<T>(byte_of(codes, j));
        }
      }
      return v;
    });
    return !any(!ok);
  }

 private:
  static constexpr std::uint32_t kStripes = Wire::kBlock / kStripe;

  static MQ_DEVICE Word pattern(T v) { return bits_as<Word>(v) & ~BitsOf<T>::kSign; }
};

}  // namespace mq::simt

MQ_BLOCK_KERNELS(nvfp4, NvFp4Blocks)
