// The loops of codecs that send the elements of a block as integers (integers.hpp has the quantizer,
// rounding-inl.hpp the arithmetic of elements). A codec has kName, kWhat, kId, kLossless, kSpecs,
// block(params), Family = Integers, and settings(params).
//
// Encode reads a block twice. Pass 1 finds what sets the quantizer; pass 2 computes codes and residual, with
// the block in L1. So x and residual are read once from memory, and residual is written once. The pass that
// takes longer asks for what comes next: pass 2 if it rounds at random.
#pragma once
#include "kernels/entropy/coded-inl.hpp"
#include "kernels/host/loops-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/integers/rounding-inl.hpp"

// The loops over blocks, for all codecs. They are compiled for each way that is measurably faster, and no
// more.
template <class T>
struct IntegerBlocks {
  using L = Lanes<T>;
  using Quantizer = integers::Quantizer<T>;
  using Settings = integers::Settings;
  using StepRange = integers::StepRange;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  static std::size_t wire_bytes(std::size_t n, const Settings& settings) {
    const std::size_t bytes = settings.template wire_bytes<T>(n);
    return settings.entropy ? CodePlaces::bound(bytes, n) : bytes;
  }

  template <Feedback F>
  static Encoded encode(const EncodeArgs& a, const Settings& settings) {
    const auto encode = [&](const EncodeArgs& args) { return encode_fixed<F>(args, settings); };
    return settings.entropy ? encode_pieces<T>(a, places(settings), tables(settings), encode) : encode(a);
  }

  template <bool kAdd>
  static Decoded decode(const DecodeArgs& a, const Settings& settings, bool stream) {
    const auto decode = [&](const DecodeArgs& args) {
      const WireView wire{args.wire, args.wire_bytes};
      return decode_fixed<kAdd>(args, settings, &wire, std::integral_constant<std::size_t, 1>{}, stream);
    };
    if (settings.entropy) return decode_pieces<T>(a, places(settings), tables(settings), decode);
    return a.wire_bytes == settings.template wire_bytes<T>(a.n) ? decode(a) : Decoded::malformed;
  }
  template <bool kAdd>
  static Decoded decode_sum(const DecodeArgs& a, const Settings& settings, std::span<const WireView> wires,
                            bool stream) {
    if (settings.entropy) return decode_one_by_one<kAdd>(a, settings, wires);
    for (const WireView& wire : wires)
      if (wire.size() != settings.template wire_bytes<T>(a.n)) return Decoded::malformed;
    return count_by<kAdd>(wires.size(), [&](auto count) {
      return decode_fixed<kAdd>(a, settings, wires.data(), count, stream);
    });
  }

 private:
  static CodePlaces places(const Settings& settings) {
    return {settings.block, settings.values() * sizeof(T), 0, settings.bits};
  }
  static const entropy::Tables& tables(const Settings& settings) {
    return entropy::integer_tables(settings.bits, settings.stochastic);
  }
  // With code=entropy each wire is unpacked piece by piece.
  template <bool kAdd>
  static Decoded decode_one_by_one(const DecodeArgs& a, const Settings& settings,
                                   std::span<const WireView> wires) {
    DecodeArgs one = a;
    for (std::size_t i = 0; i < wires.size(); ++i) {
      one.wire = wires[i].data();
      one.wire_bytes = wires[i].size();
      const Decoded decoded =
          i == 0 ? decode<kAdd>(one, settings, false) : decode<true>(one, settings, false);
      if (decoded != Decoded::ok) return decoded;
      one.base = one.x;
    }
    return Decoded::ok;
  }

  template <Feedback F>
  static Encoded encode_fixed(const EncodeArgs& a, const Settings& settings) {
    const bool centred = settings.range != StepRange::ends;
    // Constants that save nothing are left out: random numbers, and the ends of blocks, take most of the
    // time.
    if (settings.stochastic)
      return centred ? encode_blocks<F, Noise, 0, false>(a, settings)
                     : encode_blocks<F, Noise, 0, true>(a, settings);
    if (centred && settings.bits == 8) return encode_blocks<F, NoNoise, 8, false>(a, settings);
    if (centred && settings.bits == 4) return encode_blocks<F, NoNoise, 4, false>(a, settings);
    return encode_blocks<F, NoNoise, 0, true>(a, settings);
  }

  template <class Random>
  static constexpr bool kIsRandom = std::is_same_v<Random, Noise>;

  // kBits: the number of bits, or 0 if it is known at run time only. kMiddle: the middle may be another
  // number than +0. Where it is +0, both give the same bits.
  template <Feedback F, class Random, int kBits, bool kMiddle>
  static Encoded encode_blocks(const EncodeArgs& a, Settings settings) {
    if constexpr (kBits != 0) settings.bits = kBits;
    std::byte* wire = a.wire;
    Random random(a.noise);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += settings.block) {
      const std::size_t n = std::min(settings.block, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      const Quantizer to = measure<kIsRandom<Random>>(source, n, settings, result.nonfinite);
      wire = write_head(wire, to, settings);
      wire = write_codes<kMiddle>(source, n, to, settings, wire, random, a.noise.index + begin);
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  static MQ_INLINE std::byte* write_head(std::byte* wire, const Quantizer& to, const Settings& settings) {
    const T head[2]{to.step_on_wire(), to.middle};
    std::memcpy(wire, head, sizeof(T));
    if (settings.values() == 2) std::memcpy(wire + sizeof(T), head + 1, sizeof(T));
    return wire + settings.values() * sizeof(T);
  }

  template <bool kLate, Feedback F>
  static MQ_INLINE Quantizer measure(const Source<T, F>& source, std::size_t n, const Settings& settings,
                                     std::uint64_t& nonfinite) {
    const T most = greatest_magnitude<kLate>(source, n);
    if (std::isfinite(most) && settings.range == StepRange::magnitude)
      return Quantizer::of(T{0}, most, settings.limit(), integers::Mark::none);
    return measure_all(source, n, settings, nonfinite);
  }

  // The rest of what may set a quantizer: rare or not the default, so the code is simple.
  template <Feedback F>
  static __attribute__((noinline)) Quantizer measure_all(const Source<T, F>& source, std::size_t n,
                                                         Settings settings, std::uint64_t& nonfinite) {
    alignas(64) std::byte v[integers::kMaxBlock * sizeof(T)];
    copy_block(source, n, v);
    integers::Measured<T> all;
    for (std::size_t i = 0; i < n; ++i) all.add(element<T>(v, i));
    nonfinite += all.nonfinite.all();
    return all.quantizer(settings, settings.range == StepRange::norm ? norm(v, n, all.magnitude()) : T{0});
  }

  // The Euclidean norm of the finite elements.
  static T norm(const std::byte* v, std::size_t n, T most) {
    if (!(most >= Quantizer::kTiny)) return most;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += integers::square_of_share(element<T>(v, i), most);
    return integers::norm_of(most, std::sqrt(sum));
  }

  template <bool kMiddle, Feedback F, class Random>
  static MQ_INLINE std::byte* write_codes(const Source<T, F>& source, std::size_t n, const Quantizer& to,
                                          const Settings& settings, std::byte* wire, Random& random,
                                          std::uint64_t index) {
    const std::size_t whole = n / kLanes, rest = n % kLanes,
                      group = 4 * static_cast<std::size_t>(settings.bits);
    const Rounding<L> rounding(to, settings.limit(), settings.zero());
    const bool marked = to.mark != integers::Mark::none;
    for (std::size_t g = 0; g < whole; ++g, wire += group) {
      if constexpr (kIsRandom<Random>) source.ask(g);
      pack(wire, settings.bits,
           codes_of<kMiddle>(source, g, rounding, marked, random, index + g * kLanes, Whole{}));
    }
    if (rest) {
      pack(wire, settings.bits,
           codes_of<kMiddle>(source, whole, rounding, marked, random, index + whole * kLanes, Part{rest}));
      wire += group;
    }
    return wire;
  }

  template <bool kMiddle, Feedback F, class Random, class W>
  static MQ_INLINE Bytes codes_of(const Source<T, F>& source, std::size_t g, const Rounding<L>& rounding,
                                  bool marked, Random& random, std::uint64_t index, W width) {
    const L v = source.v(g, width);
    L quantized = rounding.template steps<kMiddle>(v);
    if constexpr (kIsRandom<Random>)
      quantized = rounding.quantize(quantized, random.template at<T>(index));
    else
      quantized = rounding.quantize(quantized);
    std::uint32_t kept = width.bits;
    if (marked) [[unlikely]]
      kept &= v.finite().bits();
    if constexpr (F != Feedback::none) {
      L error = v - rounding.template decoded<kMiddle>(quantized);
      if (marked) [[unlikely]]
        error = L::select(v.finite(), error, L::all(T{0}));
      source.keep(g, error, width);
    }
    const Bytes codes = quantized.low_bytes();
    return std::is_same_v<W, Whole> && !marked ? codes : keep_bytes(codes, kept);
  }

  // A block on a wire, and what its codes have shown.
  struct Coded {
    L step, middle, mark;
    const std::byte* codes = nullptr;
    bool marked = false, centred = false;
    std::uint32_t zeros = 0, padding = 0;

    // False if encode cannot have written it.
    MQ_INLINE bool open(const std::byte* wire, const Settings& settings) {
      T head[2]{};
      std::memcpy(head, wire, sizeof(T));
      if (settings.values() == 2) std::memcpy(head + 1, wire + sizeof(T), sizeof(T));
      const Quantizer from = Quantizer::of_wire(head[0], head[1]);
      step = L::all(from.step);
      middle = L::all(from.middle);
      mark = L::all(from.marked_value());
      codes = wire + settings.values() * sizeof(T);
      marked = from.mark != integers::Mark::none;
      // Without an addition of 0, which would only turn -0 to 0. A product is no -0 if the step is more than
      // 0.
      centred = from.middle == T{0} && !std::signbit(from.middle) && from.step > T{0};
      return from.valid(std::signbit(head[0]), settings.limit());
    }
    template <class W>
    MQ_INLINE L get(std::size_t g, const Settings& settings, W width) {
      const auto zero = static_cast<std::uint8_t>(settings.zero());
      const Bytes bytes = unpack(codes + g * 4 * static_cast<std::size_t>(settings.bits), settings.bits);
      const std::uint32_t empty = zero_bytes(bytes);
      zeros |= empty & width.bits;
      padding |= ~(empty | width.bits);
      L decoded = dequantize(L::of_signed_bytes(less(bytes, zero)), step, middle, centred);
      if (marked) [[unlikely]]
        decoded = L::select(L::mask_of(empty), mark, decoded);
      return decoded;
    }
    // To be asked once all codes are decoded: false if encode cannot have written them.
    MQ_INLINE bool codes_ok() const { return (zeros != 0) == marked && padding == 0; }
  };

  // One wire and two, the usual numbers, have loops for the usual numbers of bits.
  template <bool kAdd, class Count>
  static Decoded decode_fixed(const DecodeArgs& a, const Settings& settings, const WireView* wires,
                              Count count, bool stream) {
    if constexpr (!std::is_same_v<Count, std::size_t>) {
      if (settings.bits == 8) return decode_wires<kAdd, 8>(a, settings, wires, count, stream);
      if (settings.bits == 4) return decode_wires<kAdd, 4>(a, settings, wires, count, stream);
    }
    return decode_wires<kAdd, 0>(a, settings, wires, count, stream);
  }

  // kBits: the number of bits, or 0 if it is known at run time only. The settings are a copy, which no store
  // of an element can change.
  template <bool kAdd, int kBits, class Count>
  static Decoded decode_wires(const DecodeArgs& a, Settings settings, const WireView* wires, Count count,
                              bool stream) {
    if constexpr (kBits != 0) settings.bits = kBits;
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    std::size_t at = 0;  // of the block on each wire
    for (std::size_t begin = 0; begin < a.n; begin += settings.block) {
      const std::size_t n = std::min(settings.block, a.n - begin), offset = begin * sizeof(T);
      Coded coded[kMostOf<Count>];
      for (std::size_t i = 0; i < count; ++i)
        if (!coded[i].open(wires[i].data() + at, settings)) return Decoded::malformed;
      const auto groups = [&](auto store) __attribute__((always_inline)) {
        decode_groups<kAdd>(x + offset, kAdd ? base + offset : nullptr, n, settings, coded, count, store);
      };
      store_by(stream, x + offset, groups);
      for (std::size_t i = 0; i < count; ++i)
        if (!coded[i].codes_ok()) return Decoded::malformed;
      at += settings.template block_bytes<T>(n);
    }
    return Decoded::ok;
  }

  template <bool kAdd, class Count, class Store>
  static MQ_INLINE void decode_groups(std::byte* x, const std::byte* base, std::size_t n,
                                      const Settings& settings, Coded* coded, Count count, Store store) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    const auto values = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      L sum = sum_of<kAdd>(base, g, coded[0].get(g, settings, width), width);
      for (std::size_t i = 1; i < count; ++i) sum = sum_of(sum, coded[i].get(g, settings, width));
      return sum;
    };
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      values(g, Whole{}).store(x + g * kGroupBytes, store);
    }
    if (rest) values(whole, Part{rest}).store(x + whole * kGroupBytes, Part{rest});
  }
};

// The row of a codec.
template <class T, class Q>
struct Integers : RowFunctions<Integers<T, Q>> {
  static constexpr bool kFixedSize = false, kSums = true;  // not fixed with code=entropy
  using Blocks = IntegerBlocks<T>;

  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    return Blocks::wire_bytes(n, Q::settings(params));
  }

 private:
  friend RowFunctions<Integers>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    return Blocks::template encode<F>(a, Q::settings(a.params));
  }
  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    return Blocks::template decode<kAdd>(a, Q::settings(a.params), stream);
  }
  template <bool kAdd>
  static Decoded decode_sum_as(const DecodeArgs& a, std::span<const WireView> wires, bool stream) {
    return Blocks::template decode_sum<kAdd>(a, Q::settings(a.params), wires, stream);
  }
};
