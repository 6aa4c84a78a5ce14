// rangefloat: the range-based float of Wang, Wu, Feng, Vishwanath, Xiao (FFT-based gradient sparsification,
// 2018/2020): a float of `bits` bits whose codes are consecutive bit patterns of the element type, cut to
// `man` bits. The codes have the order of the magnitudes, and no code is spent outside of the range.
//
//   top   = the pattern of the greatest magnitude that is sent, without its lowest bits
//   code  = (pattern of |v|, rounded to `man` bits, ties away) - top + L, L = 2^(bits - 1) - 2; 1 to L
//
// Magnitudes beyond the greatest become it. Those below half of the least, which is code 1, become 0, code 0.
// The range has L / 2^man octaves: 15.75 with bits=8, man=3. Three ways to place it:
//
//   (none)  Each block of 256 elements begins with its own top.
//   range=R The greatest magnitude is R, in all blocks.
//   eps=E   The least magnitude is E, in all blocks.
//
// The sign is the highest bit of a code. Code L + 1 is infinity, minus zero is NaN. The paper has separate
// limits for both signs; here they are equal.
//
// Wire, per block: top, an integer of the element's size, if neither range nor eps is given; the codes,
// packed as in host/packed-inl.hpp. bits / 8 + 4 / 256 bytes per float.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/patterns/coder-inl.hpp"
#include "kernels/sparse/keys-inl.hpp"

template <class T, class Q>
struct RangeFloats : RowFunctions<RangeFloats<T, Q>> {
  static constexpr bool kFixedSize = true;
  using L = Lanes<T>;
  using Word = typename L::Bits;
  static constexpr std::size_t kBlock = FloatRange<T>::kBlock, kGroupBytes = kLanes * sizeof(T);
  using Format = FloatRange<T>;
  using Coder = RangeCoder<T, L>;

  static std::size_t wire_bytes(std::size_t n, const Params& params) { return Format(params).wire_bytes(n); }

 private:
  friend RowFunctions<RangeFloats>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const Format format(a.params);
    std::byte* wire = a.wire;
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), whole = n / kLanes, rest = n % kLanes;
      const auto source = Source<T, F>::at(a, begin);
      Word top = format.top;
      if (format.own) {
        top = format.within(format.rounded(std::bit_cast<Word>(greatest(source, n))));
        std::memcpy(wire, &top, sizeof top);
        wire += sizeof top;
      }
      const Coder coder(format, top);
      for (std::size_t g = 0; g < whole; ++g, wire += format.group())
        result.nonfinite += encode_group(source, g, coder, wire, Whole{});
      if (rest) {
        result.nonfinite += encode_group(source, whole, coder, wire, Part{rest});
        wire += format.group();
      }
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  // The greatest finite magnitude.
  template <Feedback F>
  static MQ_INLINE T greatest(const Source<T, F>& source, std::size_t n) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    L most = L::all(T{0});
    const auto add = [&](const L& v) __attribute__((always_inline)) {
      most = L::greatest_magnitude(most, L::select(v.finite(), v, L::all(T{0})));
    };
    for (std::size_t g = 0; g < whole; ++g) {
      source.ask(g);
      add(source.v(g, Whole{}));
    }
    if (rest) add(source.v(whole, Part{rest}));
    return most.greatest_of_lanes();
  }

  template <Feedback F, class W>
  static MQ_INLINE std::uint64_t encode_group(const Source<T, F>& source, std::size_t g, const Coder& coder,
                                              std::byte* wire, W width) {
    const L v = source.v(g, width);
    const auto finite = v.finite();
    const std::uint32_t nonfinite = ~finite.bits() & width.bits;
    const auto rounded = coder.rounded(v);
    L code = rounded.code;
    if (nonfinite != 0) [[unlikely]]
      code = L::select(finite, code, coder.mark_of(v));
    if constexpr (F != Feedback::none)
      source.keep(g, L::select(finite, v - rounded.value, L::all(T{0})), width);
    const Bytes codes = code.low_bytes();
    pack(wire, coder.bits, std::is_same_v<W, Whole> ? codes : keep_bytes(codes, width.bits));
    return static_cast<std::uint64_t>(std::popcount(nonfinite));
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const Format format(a.params);
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte* wire = a.wire;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), offset = begin * sizeof(T);
      Word top = format.top;
      if (format.own) {
        std::memcpy(&top, wire, sizeof top);
        wire += sizeof top;
        if (top != format.within(top)) return Decoded::malformed;
      }
      bool ok = true;
      const auto groups = [&](auto store) __attribute__((always_inline)) {
        ok = decode_groups<kAdd>(x + offset, kAdd ? base + offset : nullptr, n, Coder(format, top), wire,
                                 store);
      };
      store_by(stream, x + offset, groups);
      if (!ok) return Decoded::malformed;
      wire += (n + kLanes - 1) / kLanes * format.group();
    }
    return Decoded::ok;
  }

  // False if there are codes behind the last element.
  template <bool kAdd, class Store>
  static MQ_INLINE bool decode_groups(std::byte* x, const std::byte* base, std::size_t n, const Coder& coder,
                                      const std::byte* wire, Store store) {
    const std::size_t whole = n / kLanes, rest = n % kLanes, group = 4 * static_cast<std::size_t>(coder.bits);
    const auto values = [&](std::size_t g, const Bytes& codes, auto width) __attribute__((always_inline)) {
      return sum_of<kAdd>(base, g, coder.value_of(L::of_byte_bits(codes)), width);
    };
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      values(g, unpack(wire + g * group, coder.bits), Whole{}).store(x + g * kGroupBytes, store);
    }
    if (rest == 0) return true;
    const Bytes last = unpack(wire + whole * group, coder.bits);
    values(whole, last, Part{rest}).store(x + whole * kGroupBytes, Part{rest});
    return (~zero_bytes(last) & ~Part{rest}.bits) == 0;
  }
};

struct RangeFloat {
  static constexpr std::string_view kName = "rangefloat";
  static constexpr std::string_view kWhat = "consecutive bit patterns around a range (Wang et al. 2018)";
  static constexpr std::uint16_t kId = 18;
  static constexpr bool kLossless = false;
  template <class T>
  using Family = RangeFloats<T, RangeFloat>;

  // Parameters.
  static constexpr std::array kSpecs{
      ParamSpec{"bits", "of a code", ParamKind::integer, 8, 4, 8},
      ParamSpec{"man", "bits of mantissa", ParamKind::integer, 3, 1, 5},
      ParamSpec{"range", "greatest magnitude; 0: of each block", ParamKind::real, 0, 0, 1e18},
      ParamSpec{"eps", "least magnitude; 0: what range leaves", ParamKind::real, 0, 0, 1e18, {}, "range"}};

  // Wire format.
  static constexpr std::size_t block(const Params&) { return 256; }

  // Bounds.
  // A given range may be far below the elements, or above them all.
  static constexpr bool contraction(const Params& p) { return p.value[2] == 0 && p.value[3] == 0; }
  // Rounding to `man` bits, or half of the least magnitude.
  static double error_bound(const Params& p) {
    if (p.value[2] > 0 || p.value[3] > 0) return 0;
    const double octaves = (std::ldexp(1.0, static_cast<int>(p.value[0]) - 1) - 3) /
                           std::ldexp(1.0, static_cast<int>(p.value[1]));
    return std::max(std::ldexp(0.5, -static_cast<int>(p.value[1])),
                    std::ldexp(0.5, -static_cast<int>(octaves)));
  }
};
