// The loops of codecs in OCP Microscaling (MX) formats: 32 elements, one group of lanes, share a power of
// two. A codec has kName, kWhat, kId, kLossless, kSpecs, Family = Microscaled, format(params), and
// with_format(params, run). That calls run(format): with constants where the formats are few, because the
// loops are then compiled for each of them.
//
// Encode reads 32 groups twice. Pass 1 measures them, and their scales are computed together; pass 2 computes
// codes and residual, with the elements in L1.
//
// A block of 256 elements is 8 groups. Its wire is a scale for each group, then the codes of each group,
// packed as in packed-inl.hpp. The last block may have fewer groups, and its last group fewer elements; the
// codes of missing elements are 0. So a full block's codes begin at a multiple of 8 bytes. A scale is E8M0,
// an exponent plus 127, for floats; for doubles an exponent plus 1023 in 16 bits, because theirs go further.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/microscaled/floats-inl.hpp"
#include "kernels/microscaled/marks-inl.hpp"

template <class T>
struct MicroscaledLoops {
  using L = Lanes<T>;
  using Format = Microscale<T>;
  using Scale = typename Format::Scale;
  using Bits = typename L::Bits;
  using Coder = SmallFloats<T>;
  static constexpr std::size_t kBlock = Format::kBlock;
  static constexpr Scale kMarked = Format::kMarked;  // NaN in E8M0

  static constexpr std::size_t group_bytes(const SmallFloat& format) { return Format::group_bytes(format); }

  // Elements whose scales are computed together: as many groups as there are lanes.
  static constexpr std::size_t kSpan = kLanes * kLanes;

  // Coding asks for the next span's elements, so that they arrive meanwhile: measuring a span takes less time
  // than they need.
  static constexpr std::size_t kAskAhead = 16;

  // The scales of a span. Lane i is group i of 32 elements. Groups that are `far` are multiplied by a power
  // of two before they are rounded, because their units would be too small or too large.
  struct Scales {
    Scale code[kLanes];
    T least[kLanes], most[kLanes], rounder[kLanes];
    std::uint32_t marked, far;
    MQ_INLINE typename Coder::Unit unit(std::size_t g) const {
      return {L::all(least[g]), L::all(most[g]), L::all(rounder[g])};
    }
  };

  template <Feedback F>
  static MQ_INLINE Encoded encode_in(const EncodeArgs& a, const SmallFloat& format) {
    const Coder coder(format);
    std::byte* wire = a.wire;
    std::uint64_t nonfinite = 0;
    for (std::size_t span = 0; span < a.n; span += kSpan) {
      const std::size_t end = std::min(span + kSpan, a.n);
      const Scales scales = measure(Source<T, F>::at(a, span), end - span, format, coder);
      for (std::size_t begin = span; begin < end; begin += kBlock) {
        const std::size_t n = std::min(kBlock, end - begin), groups = (n + kLanes - 1) / kLanes;
        const std::size_t first = (begin - span) / kLanes;
        const auto source = Source<T, F>::at(a, begin);
        std::memcpy(wire, scales.code + first, groups * sizeof(Scale));
        wire += groups * sizeof(Scale);
        const auto encode = [&](std::size_t g, auto width) __attribute__((always_inline)) {
          const std::size_t at = first + g;
          source.ask(g + kAskAhead);
          if (((scales.marked | scales.far) >> at & 1) != 0) [[unlikely]]
            nonfinite += encode_special(source, g, format, scales, at, wire, width);
          else
            encode_group(source, g, coder, scales.unit(at), format.bits(), wire, width);
          wire += group_bytes(format);
        };
        const std::size_t whole = n / kLanes, rest = n % kLanes;
        for (std::size_t g = 0; g < whole; ++g) encode(g, Whole{});
        if (rest) encode(whole, Part{rest});
      }
    }
    return {static_cast<std::size_t>(wire - a.wire), nonfinite};
  }

  template <Feedback F>
  static MQ_INLINE Scales measure(const Source<T, F>& source, std::size_t n, const SmallFloat& format,
                                  const Coder& coder) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    T most[kLanes] = {};
    for (std::size_t g = 0; g < whole; ++g) most[g] = source.v(g, Whole{}).greatest_of_lanes();
    if (rest) most[whole] = source.v(whole, Part{rest}).greatest_of_lanes();

    const auto greatest = static_cast<Bits>(format.greatest());
    const L measured = L::load(reinterpret_cast<const std::byte*>(most), Whole{});
    const L finite = L::select(measured.finite(), measured, L::all(T{0}));
    const L field = finite.not_below(L::all_bits(greatest << Coder::kMantissa))
                        .bits_right(Coder::kMantissa)
                        .bits_subtract(L::all_bits(greatest));
    const L power = field.bits_left(Coder::kMantissa);
    const std::uint32_t near =
        power.at_least(L::all(FloatBits<T>::power_of_field(coder.least_field()))).bits() &
        ~power.at_least(L::all(FloatBits<T>::power_of_field(coder.greatest_field() + 1))).bits();
    const auto unit = coder.unit(L::select(L::mask_of(near), field, L::all_bits(Coder::kBias)));
    Scales scales;
    scales.marked = ~measured.finite().bits();
    scales.far = ~near & finite.any_bit().bits();
    unit.least.store(reinterpret_cast<std::byte*>(scales.least), Whole{});
    unit.most.store(reinterpret_cast<std::byte*>(scales.most), Whole{});
    unit.rounder.store(reinterpret_cast<std::byte*>(scales.rounder), Whole{});
    Bits code[kLanes];
    L::select(measured.finite(), field, L::all_bits(kMarked))
        .store(reinterpret_cast<std::byte*>(code), Whole{});
    for (int i = 0; i < kLanes; ++i) scales.code[i] = static_cast<Scale>(code[i]);
    return scales;
  }

  template <Feedback F, class W>
  static MQ_INLINE void encode_group(const Source<T, F>& source, std::size_t g, const Coder& coder,
                                     const typename Coder::Unit& unit, int bits, std::byte* code, W width) {
    const L v = source.v(g, width);
    const auto rounded = coder.rounded(v, unit);
    source.keep(g, v - rounded.value, width);
    const Bytes codes = Coder::codes(rounded, bits);
    pack(code, bits, std::is_same_v<W, Whole> ? codes : keep_bytes(codes, width.bits));
  }

  // A group that is marked or far. Returns its number of elements that are not finite.
  template <Feedback F, class W>
  static __attribute__((noinline)) std::uint64_t encode_special(const Source<T, F>& source, std::size_t g,
                                                                const SmallFloat& format,
                                                                const Scales& scales, std::size_t at,
                                                                std::byte* code, W width) {
    const L v = source.v(g, width);
    if ((scales.marked >> at & 1) != 0) {
      std::uint64_t nonfinite = 0;
      pack(code, format.bits(), mark_codes(v, width.bits, source.residual != nullptr, nonfinite));
      source.keep(g, L::select(v.finite(), v, L::all(T{0})), width);
      return nonfinite;
    }
    const Coder coder(format);
    const int field = scales.code[at];
    const auto rounded =
        coder.rounded(v * L::all(FloatBits<T>::power_of_field(2 * static_cast<int>(Coder::kBias) - field)),
                      scales.unit(at));
    source.keep(g, v - rounded.value * L::all(FloatBits<T>::power_of_field(field)), width);
    pack(code, format.bits(), keep_bytes(Coder::codes(rounded, format.bits()), width.bits));
    return 0;
  }

  template <bool kAdd>
  static MQ_INLINE Decoded decode_in(const DecodeArgs& a, bool stream, const SmallFloat& format) {
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
          L decoded = coder.values(code) * L::all(FloatBits<T>::power_of_field(scale));
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
      store_by(stream, x + begin * sizeof(T), run);
      if (!ok) return Decoded::malformed;
      wire = codes + groups * group_bytes(format);
    }
    return Decoded::ok;
  }

  // In a format that is known at run time.
  template <Feedback F>
  static Encoded encode(const EncodeArgs& a, const SmallFloat& format) {
    return encode_in<F>(a, format);
  }
  template <bool kAdd>
  static Decoded decode(const DecodeArgs& a, bool stream, const SmallFloat& format) {
    return decode_in<kAdd>(a, stream, format);
  }

  // Whether encode can have written this scale and these codes.
  static MQ_INLINE bool valid(Scale scale, const Bytes& codes, const SmallFloat& format) {
    const bool in_range = Format::in_range(scale, format);
    if (format.max_code == format.sign() - 1) return in_range;  // all codes are numbers
    return in_range && !any_above(codes, static_cast<std::uint8_t>(format.sign() - 1),
                                  static_cast<std::uint8_t>(format.max_code));
  }
};

// The functions of one codec: a loop for each of its formats, or else the loop for any format, which all
// codecs share.
template <class T, class Q>
struct Microscaled : RowFunctions<Microscaled<T, Q>> {
  using Loops = MicroscaledLoops<T>;
  static constexpr bool kFixedSize = true;
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    return Microscale<T>::wire_bytes(Q::format(params), n);
  }

 private:
  friend RowFunctions<Microscaled>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    if constexpr (kSpecialises)
      return Q::with_format(
          a.params, [&](const SmallFloat& format)
                        __attribute__((always_inline)) { return Loops::template encode_in<F>(a, format); });
    else
      return Loops::template encode<F>(a, Q::format(a.params));
  }
  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    if constexpr (kSpecialises)
      return Q::with_format(
          a.params, [&](const SmallFloat& format) __attribute__((always_inline)) {
            return Loops::template decode_in<kAdd>(a, stream, format);
          });
    else
      return Loops::template decode<kAdd>(a, stream, Q::format(a.params));
  }
};

// The traits of a codec in such a format. Values above the greatest small float but within the group's power
// of two become the greatest: with E4M3 that costs up to 1/8 of them.
template <class Me>
struct MicroscaledCodec {
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  template <class T>
  using Family = Microscaled<T, Me>;
  static constexpr std::size_t block(const Params&) { return 256; }
  static constexpr bool contraction(const Params&) { return true; }  // to the nearest value, 0 among them
  static double error_bound(const Params& p) {
    const int mantissa = Me::format(p).mantissa;
    return Me::format(p) == kE4M3 ? 0.125 : std::ldexp(0.5, -mantissa);
  }
};
