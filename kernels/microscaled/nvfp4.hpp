// nvfp4: floats of 4 bits, E2M1, in groups of 16 that share a scale of 8 bits, E4M3 (NVFP4, the format of
// NVIDIA's Blackwell processors). There the second scale, a float, belongs to a whole tensor. Here it belongs
// to 1024 elements: so a vector may be cut, no rank needs to know the others' vectors, and it is never
// worse. 0.566 bytes per float.
//
//   unit  = (greatest magnitude of the block) / (6 * 448)
//   scale = (greatest magnitude of the group) / 6 / unit, rounded to E4M3
//   code  = v / (scale unit), rounded to E2M1
//
// A group with NaN or Inf has the scale NaN, 0x7f, and marks as codes (microscaled/marks-inl.hpp). A block
// whose magnitudes are all below 2^-107 (doubles: 2^-1000) decodes to 0.
//
// Wire, per block: unit, of the element type; a byte of scale for each group of 16, an even number of them;
// the codes, packed as in host/packed-inl.hpp.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/microscaled/floats-inl.hpp"
#include "kernels/microscaled/marks-inl.hpp"

template <class T, class Q>
struct NvFp4Loops : RowFunctions<NvFp4Loops<T, Q>> {
  static constexpr bool kFixedSize = true;
  using L = Lanes<T>;
  using Wire = NvFp4Wire<T>;
  static constexpr std::size_t kBlock = Wire::kBlock, kMaxGroups = kBlock / kLanes,
                               kGroupBytes = kLanes * sizeof(T), kCodeBytes = Wire::kCodeBytes;
  // Coding asks for the next block's elements, so that they arrive meanwhile.
  static constexpr std::size_t kAskAhead = 16;
  static constexpr std::uint8_t kMarked = Wire::kMarked;

  static std::size_t groups_of(std::size_t n) { return Wire::groups(n); }
  static std::size_t wire_bytes(std::size_t n, const Params&) { return Wire::bytes(n); }

 private:
  friend RowFunctions<NvFp4Loops>;

  // The scales of a block: as bytes, and as numbers in units of `unit`. Lane i is group i of 16.
  struct Scales {
    T unit;
    std::byte code[2 * kMaxGroups];
    T value[2 * kMaxGroups], step[2 * kMaxGroups], inverse[2 * kMaxGroups];
    MQ_INLINE void set_steps() {
      for (std::size_t i = 0; i < 2 * kMaxGroups; ++i) step[i] = value[i] * unit;
    }
    MQ_INLINE void set_inverses() {
      for (std::size_t i = 0; i < 2 * kMaxGroups; ++i) inverse[i] = step[i] > T{0} ? T{1} / step[i] : T{0};
    }
    MQ_INLINE L steps(std::size_t g) const { return L::halves(step[2 * g], step[2 * g + 1]); }
    MQ_INLINE L inverses(std::size_t g) const { return L::halves(inverse[2 * g], inverse[2 * g + 1]); }
  };

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    std::byte* wire = a.wire;
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), groups = groups_of(n);
      const auto source = Source<T, F>::at(a, begin);
      Scales scales = measure(source, n);
      std::memcpy(wire, &scales.unit, sizeof(T));
      std::memcpy(wire + sizeof(T), scales.code, 2 * groups);
      std::byte* const codes = wire + sizeof(T) + 2 * groups;
      const std::size_t whole = n / kLanes, rest = n % kLanes;
      scales.set_steps();
      scales.set_inverses();
      const SmallFloats<T> coder(kE2M1);
      const auto encode = [&](std::size_t g, auto width) __attribute__((always_inline)) {
        source.ask(g + kAskAhead);
        const std::uint32_t marked = marked_lanes(scales.code + 2 * g) & width.bits;
        if (marked != 0) [[unlikely]]
          result.nonfinite += encode_marked(source, g, marked, scales, codes + g * kCodeBytes, width);
        else
          encode_group(source, g, coder, scales, codes + g * kCodeBytes, width);
      };
      for (std::size_t g = 0; g < whole; ++g) encode(g, Whole{});
      if (rest) encode(whole, Part{rest});
      wire = codes + groups * kCodeBytes;
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  template <Feedback F>
  static MQ_INLINE Scales measure(const Source<T, F>& source, std::size_t n) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    Scales scales;
    T most[2 * kMaxGroups] = {};
    for (std::size_t g = 0; g < whole; ++g) {
      const L v = source.v(g, Whole{});
      for (int half = 0; half < 2; ++half)
        most[2 * g + static_cast<std::size_t>(half)] = v.greatest_of_half(half);
    }
    if (rest) {
      const L v = source.v(whole, Part{rest});
      for (int half = 0; half < 2; ++half)
        most[2 * whole + static_cast<std::size_t>(half)] = v.greatest_of_half(half);
    }
    L finite = L::all(T{0});
    for (std::size_t at = 0; at < 2 * kMaxGroups; at += kLanes) {
      const L m = L::load(reinterpret_cast<const std::byte*>(most + at), Whole{});
      finite = L::greatest_magnitude(finite, L::select(m.finite(), m, L::all(T{0})));
    }
    scales.unit = Wire::unit_of(finite.greatest_of_lanes());
    round_scales(scales, most);
    return scales;
  }

  static MQ_INLINE void round_scales(Scales& scales, const T* most) {
    const SmallFloats<T> coder(kE4M3);
    const L per_unit = L::all(scales.unit > T{0} ? T{1} / scales.unit : T{0}),
            sixth = L::all(T{1} / Wire::kMostCode);
    for (std::size_t at = 0; at < 2 * kMaxGroups; at += kLanes) {
      const L m = L::load(reinterpret_cast<const std::byte*>(most + at), Whole{});
      const auto finite = m.finite();
      const L clean = L::select(finite, m, L::all(T{0}));
      const auto rounded = coder.rounded(clean * sixth * per_unit, coder.one());
      rounded.value.store(reinterpret_cast<std::byte*>(scales.value + at), Whole{});
      store_bytes(scales.code + at, rounded.code.low_bytes());
      for (std::uint32_t bits = ~finite.bits(); bits != 0; bits &= bits - 1)
        scales.code[at + static_cast<std::size_t>(std::countr_zero(bits))] = std::byte{kMarked};
    }
  }

  // The lanes of groups of 16 whose elements are not all finite.
  static MQ_INLINE std::uint32_t marked_lanes(const std::byte* two) {
    return (two[0] == std::byte{kMarked} ? 0xffffu : 0u) | (two[1] == std::byte{kMarked} ? 0xffff0000u : 0u);
  }

  template <Feedback F, class W>
  static MQ_INLINE void encode_group(const Source<T, F>& source, std::size_t g, const SmallFloats<T>& coder,
                                     const Scales& scales, std::byte* wire, W width) {
    const L v = source.v(g, width);
    const auto rounded = coder.rounded(v * scales.inverses(g), coder.one());
    source.keep(g, v - rounded.value * scales.steps(g), width);
    const Bytes codes = coder.codes(rounded, kE2M1.bits());
    pack(wire, kE2M1.bits(), std::is_same_v<W, Whole> ? codes : keep_bytes(codes, width.bits));
  }

  // A group with NaN or Inf in the halves of these lanes. Returns the number of such elements.
  template <Feedback F, class W>
  static __attribute__((noinline)) std::uint64_t encode_marked(const Source<T, F>& source, std::size_t g,
                                                               std::uint32_t marked, const Scales& scales,
                                                               std::byte* wire, W width) {
    const SmallFloats<T> coder(kE2M1);
    const L v = source.v(g, width), clean = L::select(v.finite(), v, L::all(T{0}));
    const auto rounded = coder.rounded(clean * scales.inverses(g), coder.one());
    source.keep(g, clean - rounded.value * scales.steps(g), width);
    std::uint64_t nonfinite = 0;
    const Bytes marks = mark_codes(v, marked, source.residual != nullptr, nonfinite);
    pack(wire, kE2M1.bits(),
         joined(keep_bytes(coder.codes(rounded, kE2M1.bits()), width.bits & ~marked), marks, 0));
    return nonfinite;
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte* wire = a.wire;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), offset = begin * sizeof(T);
      bool ok = true;
      const auto run = [&](auto store) __attribute__((always_inline)) {
        ok = decode_block<kAdd>(x + offset, kAdd ? base + offset : nullptr, n, wire, store);
      };
      store_by(stream, x + offset, run);
      if (!ok) return Decoded::malformed;
      wire += sizeof(T) + groups_of(n) * (2 + kCodeBytes);
    }
    return Decoded::ok;
  }

  // False if encode cannot have written this block.
  template <bool kAdd, class Store>
  static MQ_INLINE bool decode_block(std::byte* x, const std::byte* base, std::size_t n,
                                     const std::byte* wire, Store store) {
    const SmallFloats<T> coder(kE2M1), scale_coder(kE4M3);
    const std::size_t groups = groups_of(n), whole = n / kLanes, rest = n % kLanes;
    Scales scales;
    std::memcpy(&scales.unit, wire, sizeof(T));
    std::memset(scales.code, 0, sizeof scales.code);
    std::memcpy(scales.code, wire + sizeof(T), 2 * groups);
    if (std::signbit(scales.unit) || !Wire::in_range(scales.unit)) return false;
    for (std::size_t at = 0; at < 2 * kMaxGroups; at += kLanes) {
      const Bytes codes = load_bytes(scales.code + at);
      if (any_above(codes, 0xff, kMarked)) return false;
      scale_coder.values(codes).store(reinterpret_cast<std::byte*>(scales.value + at), Whole{});
    }
    scales.set_steps();
    const std::byte* const codes = wire + sizeof(T) + 2 * groups;
    bool ok = true;
    const auto values = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      const Bytes code = unpack(codes + g * kCodeBytes, kE2M1.bits());
      ok &= (~zero_bytes(code) & ~width.bits) == 0;
      L decoded = coder.values(code) * scales.steps(g);
      const std::uint32_t marked = marked_lanes(scales.code + 2 * g);
      for (const std::uint32_t half : {0xffffu, 0xffff0000u})
        if ((marked & half) != 0) [[unlikely]]
          decoded = with_marks(decoded, code, marked & half & width.bits, ok);
      return sum_of<kAdd>(base, g, decoded, width);
    };
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      values(g, Whole{}).store(x + g * kGroupBytes, store);
    }
    if (rest) values(whole, Part{rest}).store(x + whole * kGroupBytes, Part{rest});
    return ok;
  }
};

struct NvFp4 {
  static constexpr std::string_view kName = "nvfp4";
  static constexpr std::string_view kWhat = "4-bit floats, 16 of which share an 8-bit float (NVFP4)";
  static constexpr std::uint16_t kId = 15;
  static constexpr bool kLossless = false;
  static constexpr bool kMarksBlocks = true;
  template <class T>
  using Family = NvFp4Loops<T, NvFp4>;

  // Parameters.
  static constexpr std::array<ParamSpec, 0> kSpecs{};

  // Wire format.
  static constexpr std::size_t block(const Params&) { return 1024; }

  // Bounds.
  static constexpr bool contraction(const Params&) { return true; }  // to the nearest value, 0 among them
  // Half a step between 4 and 6, with a scale that was rounded up by 1/16, or what a scale rounded down cuts
  // off.
  static constexpr double error_bound(const Params&) { return 0.18; }
};
