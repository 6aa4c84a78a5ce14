// The loops of codecs that send the elements of a block as integers on a grid
// (kernels/integers/integers.hpp). A codec has kName, kWhat, kId, kLossless, kSpecs, block(params), Family =
// Integers, and settings(params).
//
// Encode reads a block twice. Pass 1 finds what sets the grid; pass 2 computes codes and residual, with the
// block in L1. So x and residual are read once from memory, and residual is written once. The pass that takes
// longer asks for what comes next: pass 2 if it rounds at random.
#pragma once
#include "kernels/entropy/coded-inl.hpp"
#include "kernels/host/loops-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/sparse/select-inl.hpp"

template <class T, class Q>
struct Integers : RowFunctions<Integers<T, Q>> {
  static constexpr bool kFixedSize = false, kSums = true;  // not fixed with code=entropy
  using L = Lanes<T>;
  using Grid = integers::Grid<T>;
  using Settings = integers::Settings;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    const Settings settings = Q::settings(params);
    const std::size_t bytes = settings.template wire_bytes<T>(n);
    return settings.entropy ? CodePlaces::bound(bytes, n) : bytes;
  }

 private:
  friend RowFunctions<Integers>;

  // The least and greatest finite element of a block, and its elements that are not finite.
  struct Ends {
    T low, high;
    NonFinite<T> nonfinite;
  };

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const Settings settings = Q::settings(a.params);
    const auto encode = [&](const EncodeArgs& args) {
      return settings.stochastic ? encode_blocks<F, Noise>(args) : encode_blocks<F, NoNoise>(args);
    };
    return settings.entropy ? encode_pieces<T>(a, places(settings), tables(settings), encode) : encode(a);
  }

  static CodePlaces places(const Settings& settings) {
    return {settings.block, settings.values() * sizeof(T), 0, settings.bits};
  }
  static const entropy::Tables& tables(const Settings& settings) {
    return entropy::grid_tables(settings.bits, settings.stochastic);
  }

  template <class Random>
  static constexpr bool kAsksLate = std::is_same_v<Random, Noise>;

  template <Feedback F, class Random>
  static Encoded encode_blocks(const EncodeArgs& a) {
    const Settings settings = Q::settings(a.params);
    std::byte* wire = a.wire;
    Random random(a.site);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += settings.block) {
      const std::size_t n = std::min(settings.block, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      const Grid grid = measure<kAsksLate<Random>>(source, n, settings, result.nonfinite);
      wire = write_head(wire, grid, settings);
      const std::uint64_t index = a.site.index + begin;
      wire = settings.reach == integers::Reach::ends
                 ? write_codes<true>(source, n, grid, settings, wire, random, index)
                 : write_codes<false>(source, n, grid, settings, wire, random, index);
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  static MQ_INLINE std::byte* write_head(std::byte* wire, const Grid& grid, const Settings& settings) {
    const T head[2]{grid.step_on_wire(), grid.middle};
    std::memcpy(wire, head, sizeof(T));
    if (settings.values() == 2) std::memcpy(wire + sizeof(T), head + 1, sizeof(T));
    return wire + settings.values() * sizeof(T);
  }

  template <bool kLate, Feedback F>
  static MQ_INLINE Grid measure(const Source<T, F>& source, std::size_t n, const Settings& settings,
                                std::uint64_t& nonfinite) {
    const T most = greatest_magnitude<kLate>(source, n);
    if (std::isfinite(most) && settings.reach == integers::Reach::magnitude)
      return Grid::of(T{0}, most, settings.limit(), integers::Mark::none);
    return measure_ends(source, n, settings, nonfinite);
  }

  // The rest of what may set a grid: rare or not the default, so the code is simple.
  template <Feedback F>
  static Grid measure_ends(const Source<T, F>& source, std::size_t n, const Settings& settings,
                           std::uint64_t& nonfinite) {
    alignas(64) std::byte v[integers::kMaxBlock * sizeof(T)];
    copy_block(source, n, v);
    const Ends ends = ends_of(v, n);
    nonfinite += ends.nonfinite.count;
    const integers::Mark mark = ends.nonfinite.count == 0         ? integers::Mark::none
                                : std::isnan(ends.nonfinite.mark) ? integers::Mark::nan
                                : ends.nonfinite.mark > 0         ? integers::Mark::above
                                                                  : integers::Mark::below;
    const T most = std::max(ends.high, -ends.low);
    if (settings.reach == integers::Reach::magnitude) return Grid::of(T{0}, most, settings.limit(), mark);
    if (settings.reach == integers::Reach::norm)
      return Grid::of(T{0}, norm_of(v, n, most), settings.limit(), mark);
    const T middle = ends.low / 2 + ends.high / 2 + T{0};  // never -0
    return Grid::of(middle, std::max(ends.high - middle, middle - ends.low), settings.limit(), mark);
  }

  static Ends ends_of(const std::byte* v, std::size_t n) {
    constexpr T kInf = std::numeric_limits<T>::infinity();
    Ends ends{kInf, -kInf, nonfinite_of<T>(v, n)};
    for (std::size_t i = 0; i < n; ++i) {
      const T e = element<T>(v, i);
      if (!std::isfinite(e)) continue;
      ends.low = e < ends.low ? e : ends.low;
      ends.high = e > ends.high ? e : ends.high;
    }
    if (ends.low > ends.high) ends.low = ends.high = T{0};  // no element is finite
    return ends;
  }

  // The Euclidean norm of the finite elements, at least `most`, the greatest magnitude; at most the greatest
  // number.
  static T norm_of(const std::byte* v, std::size_t n, T most) {
    if (!(most >= Grid::kTiny)) return most;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double share = static_cast<double>(element<T>(v, i)) / static_cast<double>(most);
      if (std::isfinite(share)) sum += share * share;
    }
    constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
    return std::max(most, static_cast<T>(std::min(static_cast<double>(most) * std::sqrt(sum), kMax)));
  }

  // kMiddle: the middle may be another number than +0.
  template <bool kMiddle, Feedback F, class Random>
  static MQ_INLINE std::byte* write_codes(const Source<T, F>& source, std::size_t n, const Grid& grid,
                                          const Settings& settings, std::byte* wire, Random& random,
                                          std::uint64_t index) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    const std::size_t group = 4 * static_cast<std::size_t>(settings.bits);
    const Rounding rounding(grid, settings.limit());
    for (std::size_t g = 0; g < whole; ++g, wire += group) {
      if constexpr (kAsksLate<Random>) source.ask(g);
      pack(wire, settings.bits, codes_of<kMiddle>(source, g, rounding, random, index + g * kLanes, Whole{}));
    }
    if (rest) {
      pack(wire, settings.bits,
           codes_of<kMiddle>(source, whole, rounding, random, index + whole * kLanes, Part{rest}));
      wire += group;
    }
    return wire;
  }

  // What pass 2 of a block needs in registers.
  struct Rounding {
    L step, middle, inverse, rounder, limit;
    bool marked;
    MQ_INLINE Rounding(const Grid& grid, int most)
        : step(L::all(grid.step)),
          middle(L::all(grid.middle)),
          inverse(L::all(grid.inverse())),
          rounder(L::all(integers::rounder<T>(most))),
          limit(L::all(static_cast<T>(most))),
          marked(grid.mark != integers::Mark::none) {}
  };

  template <bool kMiddle, Feedback F, class Random, class W>
  static MQ_INLINE Bytes codes_of(const Source<T, F>& source, std::size_t g, const Rounding& to,
                                  Random& random, std::uint64_t index, W width) {
    const L v = source.v(g, width);
    L scaled = (kMiddle ? v - to.middle : v) * to.inverse;
    if constexpr (std::is_same_v<Random, Noise>)
      scaled = (scaled + random.template at<T>(index)).clamped(L::all(T{0}) - to.limit, to.limit);
    const L rounded = scaled + to.rounder;
    std::uint32_t kept = width.bits;
    if (to.marked) [[unlikely]]
      kept &= v.finite().bits();
    if constexpr (F != Feedback::none) {
      L decoded = (rounded - to.rounder) * to.step;  // never -0
      if constexpr (kMiddle) decoded = decoded + to.middle;
      L error = v - decoded;
      if (to.marked) [[unlikely]]
        error = L::select(v.finite(), error, L::all(T{0}));
      source.keep(g, error, width);
    }
    const Bytes codes = rounded.low_bytes();
    return std::is_same_v<W, Whole> && !to.marked ? codes : keep_bytes(codes, kept);
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
      const Grid grid = Grid::of_wire(head[0], head[1]);
      step = L::all(grid.step);
      middle = L::all(grid.middle);
      mark = L::all(grid.marked_value());
      codes = wire + settings.values() * sizeof(T);
      marked = grid.mark != integers::Mark::none;
      // Without an addition of 0, which would only turn -0 to 0. A product is no -0 if the step is more than
      // 0.
      centred = grid.middle == T{0} && !std::signbit(grid.middle) && grid.step > T{0};
      return grid.valid(std::signbit(head[0]), settings.limit());
    }
    template <class W>
    MQ_INLINE L get(std::size_t g, const Settings& settings, W width) {
      const auto zero = static_cast<std::uint8_t>(settings.limit() + 1);  // the code of 0
      const Bytes bytes = unpack(codes + g * 4 * static_cast<std::size_t>(settings.bits), settings.bits);
      const std::uint32_t empty = zero_bytes(bytes);
      zeros |= empty & width.bits;
      padding |= ~(empty | width.bits);
      L decoded = L::of_signed_bytes(less(bytes, zero)) * step;
      if (!centred) decoded = decoded + middle;
      if (marked) [[unlikely]]
        decoded = L::select(L::mask_of(empty), mark, decoded);
      return decoded;
    }
    // To be asked once all codes are decoded: false if encode cannot have written them.
    MQ_INLINE bool codes_ok() const { return (zeros != 0) == marked && padding == 0; }
  };

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const Settings settings = Q::settings(a.params);
    const auto decode = [&](const DecodeArgs& args) {
      const WireView wire{args.wire, args.wire_bytes};
      return decode_wires<kAdd>(args, settings, &wire, std::integral_constant<std::size_t, 1>{}, stream);
    };
    if (settings.entropy) return decode_pieces<T>(a, places(settings), tables(settings), decode);
    return a.wire_bytes == settings.template wire_bytes<T>(a.n) ? decode(a) : Decoded::malformed;
  }
  template <bool kAdd>
  static Decoded decode_sum_as(const DecodeArgs& a, std::span<const WireView> wires, bool stream) {
    const Settings settings = Q::settings(a.params);
    if (settings.entropy) return decode_one_by_one<kAdd>(a, wires);
    for (const WireView& wire : wires)
      if (wire.size() != settings.template wire_bytes<T>(a.n)) return Decoded::malformed;
    return count_by<kAdd>(wires.size(), [&](auto count) {
      return decode_wires<kAdd>(a, settings, wires.data(), count, stream);
    });
  }
  // With code=entropy each wire is unpacked piece by piece.
  template <bool kAdd>
  static Decoded decode_one_by_one(const DecodeArgs& a, std::span<const WireView> wires) {
    DecodeArgs one = a;
    for (std::size_t i = 0; i < wires.size(); ++i) {
      one.wire = wires[i].data();
      one.wire_bytes = wires[i].size();
      const Decoded decoded = i == 0 ? decode_as<kAdd>(one, false) : decode_as<true>(one, false);
      if (decoded != Decoded::ok) return decoded;
      one.base = one.x;
    }
    return Decoded::ok;
  }

  template <bool kAdd, class Count>
  static Decoded decode_wires(const DecodeArgs& a, const Settings& settings, const WireView* wires,
                              Count count, bool stream) {
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
