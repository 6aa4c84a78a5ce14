// The loops of codecs in OCP Microscaling (MX) formats: 32 elements, one group of lanes, share a power of two. A codec has
// kName, kWhat, kId, kLossless, kSpecs, Family = Microscaled, and format(params).
//
// A block of 256 elements is 8 groups. Its wire is a scale for each group, then the codes of each group, packed as in
// packed-inl.hpp. The last block may have fewer groups, and its last group fewer elements; the codes of missing
// elements are 0. So a full block's codes begin at a multiple of 8 bytes. A scale is E8M0, an exponent plus 127, for
// floats; for doubles an exponent plus 1023 in 16 bits, because theirs go further.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/host/marks-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/host/small_floats-inl.hpp"

template <class T, class Q>
struct Microscaled : RowFunctions<Microscaled<T, Q>> {
  static constexpr bool kFixedSize = true;
  using L = Lanes<T>;
  using Format = Microscale<T>;
  using Scale = typename Format::Scale;
  using Bits = typename L::Bits;
  using Coder = SmallFloats<T>;
  static constexpr std::size_t kBlock = Format::kBlock;
  static constexpr Scale kMarked = Format::kMarked;  // NaN in E8M0

  static constexpr std::size_t group_bytes(const SmallFloat& format) { return Format::group_bytes(format); }
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    return Format::wire_bytes(Q::format(params), n);
  }

 private:
  friend RowFunctions<Microscaled>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const SmallFloat format = Q::format(a.params);
    const Coder coder(format);
    const auto* x = static_cast<const std::byte*>(a.x);
    auto* residual = static_cast<std::byte*>(a.residual);
    std::byte* wire = a.wire;
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), groups = (n + kLanes - 1) / kLanes;
      std::byte* const codes = wire + groups * sizeof(Scale);
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t at = (begin + g * kLanes) * sizeof(T), rest = n - g * kLanes;
        std::byte* const scale = wire + g * sizeof(Scale);
        std::byte* const e = residual ? residual + at : nullptr;
        std::byte* const code = codes + g * group_bytes(format);
        ask_ahead<T>(x + at, 0);
        if constexpr (F != Feedback::none) ask_ahead<T>(e, 0);
        result.nonfinite += rest >= kLanes
                                ? encode_group<F>(x + at, e, format, coder, scale, code, Whole{})
                                : encode_group<F>(x + at, e, format, coder, scale, code, Part{rest});
      }
      wire = codes + groups * group_bytes(format);
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  template <Feedback F, class W>
  static MQ_INLINE std::uint64_t encode_group(const std::byte* x, std::byte* residual,
                                              const SmallFloat& format, const Coder& coder, std::byte* scale,
                                              std::byte* code, W width) {
    L v = L::load(x, width);
    if constexpr (F == Feedback::carry) v = v + L::load(residual, width);
    const T most = L::greatest_magnitude(L::all(T{0}), v).greatest_of_lanes();
    if (!std::isfinite(most)) [[unlikely]]
      return mark_group<F>(v, residual, format, scale, code, width);
    const int field = static_cast<int>(std::bit_cast<Bits>(most) >> Coder::kMantissa);
    const int exponent = std::max(field - format.greatest(), 0);
    const auto word = static_cast<Scale>(exponent);
    std::memcpy(scale, &word, sizeof word);
    const L magnitude =
        coder.rounded_magnitude(v * L::all(power(2 * static_cast<int>(Coder::kBias) - exponent)));
    if constexpr (F != Feedback::none) {
      L error = v - Coder::with_sign(magnitude, v) * L::all(power(exponent));
      if constexpr (F == Feedback::deposit) error = deposited(L::load(residual, width), error);
      error.store(residual, width);
    }
    const Bytes codes = coder.codes(magnitude, v);
    pack(code, format.bits(), std::is_same_v<W, Whole> ? codes : keep_bytes(codes, width.bits));
    return 0;
  }

  // 2^(field - bias), also where that is subnormal.
  static MQ_INLINE T power(int field) {
    const Bits normal = static_cast<Bits>(field) << Coder::kMantissa;
    return std::bit_cast<T>(field > 0 ? normal : Bits{1} << (Coder::kMantissa - 1));
  }

  // A group with NaN or Inf.
  template <Feedback F, class W>
  static std::uint64_t mark_group(const L& v, std::byte* residual, const SmallFloat& format, std::byte* scale,
                                  std::byte* code, W width) {
    std::uint64_t nonfinite = 0;
    std::memcpy(scale, &kMarked, sizeof kMarked);
    pack(code, format.bits(), mark_codes(v, width.bits, residual != nullptr, nonfinite));
    if constexpr (F != Feedback::none) {
      L kept = L::select(v.finite(), v, L::all(T{0}));
      if constexpr (F == Feedback::deposit) kept = deposited(L::load(residual, width), kept);
      kept.store(residual, width);
    }
    return nonfinite;
  }

  template <bool kAdd, bool kStream>
  static Decoded decode_as(const DecodeArgs& a) {
    const SmallFloat format = Q::format(a.params);
    const Coder coder(format);
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte* wire = a.wire;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), groups = (n + kLanes - 1) / kLanes;
      const std::byte* const codes = wire + groups * sizeof(Scale);
      bool ok = true;
      const auto run = [&](auto store) __attribute__((always_inline)) {
        const std::size_t whole = n / kLanes, rest = n % kLanes;
        for (std::size_t g = 0; g < groups; ++g) {
          const std::size_t at = (begin + g * kLanes) * sizeof(T);
          Scale scale;
          std::memcpy(&scale, wire + g * sizeof(Scale), sizeof scale);
          if constexpr (std::is_same_v<decltype(store), Whole>) ask_ahead<T>(x + at, 0);
          const Bytes code = unpack(codes + g * group_bytes(format), format.bits());
          ok &= scale == kMarked || valid(scale, code, format);
          L decoded = coder.values(code) * L::all(power(scale));
          if (scale == kMarked) [[unlikely]]
            decoded = with_marks(decoded, code, g < whole ? Whole::bits : Part{rest}.bits, ok);
          if (g < whole) {
            sum_of<kAdd>(kAdd ? base + at : nullptr, 0, decoded, Whole{}).store(x + at, store);
          } else {
            ok &= (~zero_bytes(code) & ~Part{rest}.bits) == 0;
            sum_of<kAdd>(kAdd ? base + at : nullptr, 0, decoded, Part{rest}).store(x + at, Part{rest});
          }
        }
      };
      store_by<T, kStream>(x + begin * sizeof(T), run);
      if (!ok) return Decoded::malformed;
      wire = codes + groups * group_bytes(format);
    }
    return Decoded::ok;
  }

  // Whether encode can have written this scale and these codes.
  static MQ_INLINE bool valid(Scale scale, const Bytes& codes, const SmallFloat& format) {
    const bool in_range = static_cast<int>(scale) + format.greatest() <= 2 * static_cast<int>(Coder::kBias);
    if (format.max_code == format.sign() - 1) return in_range;  // all codes are numbers
    return in_range && !any_above(codes, static_cast<std::uint8_t>(format.sign() - 1),
                                  static_cast<std::uint8_t>(format.max_code));
  }
};

// The traits of a codec in such a format. Values above the greatest small float but within the group's power of two become
// the greatest: with E4M3 that costs up to 1/8 of them.
template <class Me>
struct MicroscaledCodec {
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  template <class T>
  using Family = Microscaled<T, Me>;
  static constexpr std::size_t block(const Params&) { return 256; }
  static double error_bound(const Params& p) {
    const int mantissa = Me::format(p).mantissa;
    return Me::format(p) == kE4M3 ? 0.125 : std::ldexp(0.5, -mantissa);
  }
};
