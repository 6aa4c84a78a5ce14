// f16: every element rounded to IEEE 754 half (5 exponent bits, 10 mantissa bits), ties to even. It is eight
// times as exact as bf16 where the range allows it.
//
// scale=none: the relative error is at most 2^-11 from 2^-14 to 65504; below, the absolute error is at most
// 2^-25. Values from 65520 on become infinite and leave no residual; encode counts them. 2 bytes per element.
//
// scale=block: 256 elements share a power of two, which takes their greatest finite magnitude to 2^14 or up
// to twice that. So no finite value becomes infinite, and the relative error is at most 2^-11 down to 2^-29
// of the greatest, if that is a normal number. NaN and Inf stay what they are and touch no other element.
// Wire, per block: the scale 2^(s - 127) as the byte s (doubles: 2^(s - 1023), two bytes), and the halves. 2
// + 1/256 bytes per float.
#pragma once
#include "kernels/halves/host-inl.hpp"

template <class T>
struct ScaledHalves : RowFunctions<ScaledHalves<T>> {
  static constexpr bool kFixedSize = true;
  using L = Lanes<T>;
  using Bits = typename L::Bits;
  using Wire = ScaledHalfWire<T>;
  using Scale = typename Wire::Scale;
  static constexpr std::size_t kBlock = Wire::kBlock, kGroupBytes = kLanes * sizeof(T), kCodes = kLanes * 2;

  static std::size_t wire_bytes(std::size_t n, const Params&) { return Wire::bytes(n); }

 private:
  friend RowFunctions<ScaledHalves>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    std::byte* wire = a.wire;
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), whole = n / kLanes, rest = n % kLanes;
      const auto source = Source<T, F>::at(a, begin);
      const auto scale = static_cast<Scale>(Wire::scale_of(exponent_of(source, n)));
      std::memcpy(wire, &scale, sizeof scale);
      wire += sizeof scale;
      for (std::size_t g = 0; g < whole; ++g)
        result.nonfinite += encode_group(source, g, scale, wire + g * kCodes, Whole{});
      if (rest) result.nonfinite += encode_group(source, whole, scale, wire + whole * kCodes, Part{rest});
      wire += 2 * n;
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  // The exponent field of the greatest finite magnitude.
  template <Feedback F>
  static MQ_INLINE int exponent_of(const Source<T, F>& source, std::size_t n) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    const auto greatest = [&](auto clean) __attribute__((always_inline)) {
      L most = L::all(T{0});
      for (std::size_t g = 0; g < whole; ++g) {
        source.ask(g);
        most = L::greatest_magnitude(most, clean(source.v(g, Whole{})));
      }
      if (rest) most = L::greatest_magnitude(most, clean(source.v(whole, Part{rest})));
      return most.greatest_of_lanes();
    };
    T most = greatest([](const L& v) { return v; });
    if (!std::isfinite(most)) [[unlikely]]
      most = greatest([](const L& v) { return L::select(v.finite(), v, L::all(T{0})); });
    return static_cast<int>(std::bit_cast<Bits>(most) >> FloatBits<T>::kMantissa);
  }

  template <Feedback F, class W>
  static MQ_INLINE std::uint64_t encode_group(const Source<T, F>& source, std::size_t g, Scale scale,
                                              std::byte* codes, W width) {
    const L v = source.v(g, width);
    L scaled = v * L::all(Wire::up(scale));
    if (Wire::clamps(scale)) [[unlikely]] {
      const L most = L::all(Wire::kMost);
      scaled = L::select(v.finite(), scaled.clamped(L::all(T{0}) - most, most), v);
    }
    Halves<F16Format>::store(cast_lanes<float>(scaled), codes, width);
    if constexpr (F != Feedback::none)
      source.keep(g, L::select(v.finite(), v - decoded(codes, scale, width), L::all(T{0})), width);
    return static_cast<std::uint64_t>(std::popcount(~v.finite().bits() & width.bits));
  }

  template <class W>
  static MQ_INLINE L decoded(const std::byte* codes, Scale scale, W width) {
    return cast_lanes<T>(Halves<F16Format>::load(codes, width)) * L::all(FloatBits<T>::power_of_field(scale));
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte* wire = a.wire;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), whole = n / kLanes, rest = n % kLanes;
      Scale scale;
      std::memcpy(&scale, wire, sizeof scale);
      if (!Wire::in_range(scale)) return Decoded::malformed;
      const std::byte* const codes = wire + sizeof scale;
      std::byte* const out = x + begin * sizeof(T);
      const std::byte* const from = kAdd ? base + begin * sizeof(T) : nullptr;
      const auto groups = [&](auto store) __attribute__((always_inline)) {
        for (std::size_t g = 0; g < whole; ++g) {
          if constexpr (std::is_same_v<decltype(store), Whole>) ask_ahead<T>(out, g);
          sum_of<kAdd>(from, g, decoded(codes + g * kCodes, scale, Whole{}), Whole{})
              .store(out + g * kGroupBytes, store);
        }
        if (rest)
          sum_of<kAdd>(from, whole, decoded(codes + whole * kCodes, scale, Part{rest}), Part{rest})
              .store(out + whole * kGroupBytes, Part{rest});
      };
      store_by(stream, out, groups);
      wire = codes + 2 * n;
    }
    return Decoded::ok;
  }
};

struct F16 : HalfCodec<F16, F16Format> {
  static constexpr std::string_view kName = "f16";
  static constexpr std::string_view kWhat = "IEEE half, round to nearest even, as it is or with block scales";
  static constexpr std::uint16_t kId = 4;
  static constexpr Form form(const Params& p) { return scaled(p) ? Form::other : Form::f16; }

  // Parameters.
  static constexpr std::array<std::string_view, 2> kScale{"none", "block"};
  static constexpr std::array kSpecs{
      ParamSpec{"scale", "none, or a power of two for 256 elements", ParamKind::word, 0, 0, 1, kScale}};
  static constexpr bool scaled(const Params& p) { return p.value[0] == 1; }

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return scaled(p) ? 256 : kLanes; }

  // Encode and decode: as every half type, or ScaledHalves.
  template <class T>
  struct Family {
    using Plain = Loops<T, F16>;
    using Blocks = ScaledHalves<T>;
    static std::size_t wire_bytes(std::size_t n, const Params& p) {
      return scaled(p) ? Blocks::wire_bytes(n, p) : Plain::wire_bytes(n, p);
    }
    static Encoded encode(const EncodeArgs& a) noexcept {
      return scaled(a.params) ? Blocks::encode(a) : Plain::encode(a);
    }
    static Decoded decode(const DecodeArgs& a) noexcept {
      return scaled(a.params) ? Blocks::decode(a) : Plain::decode(a);
    }
  };

  // Bounds.
  static constexpr double kGreatest = 65504;
  static constexpr double error_bound(const Params& p) { return scaled(p) ? 0x1p-11 : 0; }
};
