// The loops over a vector. They turn a quantizer's element math (such as halves/bf16.hpp) into the functions
// of a row: blocks, groups of 32 lanes, feedback, prefetch, rejection of malformed wire. Included once per
// instruction set, after lanes-inl.hpp.
//
// A quantizer has kName, kWhat, kId, kLossless, kSpecs, block(params), Family = Loops, code_bytes<T>(n), put
// and get. If its elements are rounded at random with some parameters, it has stochastic(params) and
// dithered(v, bits): what put then gets for finite elements, which is finite. put_exact(v, codes) may do as
// put, with less work, for 32 such results that put decodes to themselves. If finite elements can decode to
// infinities, it says kGreatest, the greatest magnitude that does not. If its blocks have a scale on the wire
// (named Means), it also has cut, Sides, Stat, put_marks, marks and padding_ok. OneBit documents each of
// them.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/host/random-inl.hpp"
#include "kernels/sparse/keys-inl.hpp"

struct NoScale {};

template <class Q, class T>
struct ScaleOf {
  using type = NoScale;
  using Statistics = NoScale;
};
template <class Q, class T>
requires requires { typename Q::template Means<T>; }
struct ScaleOf<Q, T> {
  using type = typename Q::template Means<T>;
  using Statistics = typename Q::template Sides<T>;
};

// The number of NaN and Inf elements of a block, and the value that represents them: +Inf or -Inf if they all
// are, else NaN.
template <class T>
struct NonFinite {
  std::uint64_t count;
  T mark;
};
template <class T>
NonFinite<T> nonfinite_of(const std::byte* v_of, std::size_t n) {
  std::uint64_t count[3] = {};  // -Inf, NaN, +Inf
  for (std::size_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, v_of + i * sizeof(T), sizeof v);
    if (!std::isfinite(v)) ++count[std::isnan(v) ? 1 : (v > 0 ? 2 : 0)];
  }
  const std::uint64_t all = count[0] + count[1] + count[2];
  return {all, mark_of<T>(all == count[2], all == count[0])};
}

template <class T, class Q>
struct Loops : RowFunctions<Loops<T, Q>> {
  static constexpr bool kFixedSize = true, kSums = true;
  using Scale = typename ScaleOf<Q, T>::type;
  using Statistics = typename ScaleOf<Q, T>::Statistics;
  using L = Lanes<T>;
  static constexpr bool kScaled = !std::is_same_v<Scale, NoScale>;
  static constexpr bool kRandom = requires(L v) { Q::template dithered<T>(v, v); };
  static constexpr bool kPutsExact = requires(L v, std::byte* code) { Q::template put_exact<T>(v, code); };
  static constexpr bool kOverflows = requires { Q::kGreatest; };
  static constexpr std::size_t kScaleBytes = kScaled ? sizeof(Scale) : 0;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  static constexpr std::size_t code_offset(std::size_t group) {
    return Q::template code_bytes<T>(group * kLanes);
  }

  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    if (n == 0) return 0;
    const Cut cut = cut_of(params, n);
    const std::size_t pairs = n / (cut.even + cut.odd), rest = n % (cut.even + cut.odd);
    const std::size_t even = std::min(rest, cut.even), odd = rest - even;
    return pairs * (block_bytes(cut.even) + block_bytes(cut.odd)) + (even ? block_bytes(even) : 0) +
           (odd ? block_bytes(odd) : 0);
  }

 private:
  friend RowFunctions<Loops>;

  static Cut cut_of(const Params& params, std::size_t n) {
    if constexpr (kScaled)
      return Q::cut(params, n);
    else
      return {n, n};
  }
  static constexpr std::size_t block_bytes(std::size_t n) {
    return kScaleBytes + Q::template code_bytes<T>(n);
  }

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    if constexpr (kRandom)
      if (Q::stochastic(a.params)) return encode_blocks<F, Noise>(a);
    return encode_blocks<F, NoNoise>(a);
  }

  template <Feedback F, class Random>
  static Encoded encode_blocks(const EncodeArgs& a) {
    const auto* x = static_cast<const std::byte*>(a.x);
    auto* residual = static_cast<std::byte*>(a.residual);
    std::byte* wire = a.wire;
    const Cut cut = cut_of(a.params, a.n);
    Random random(a.noise);
    Encoded result;
    for (std::size_t begin = 0, block = 0; begin < a.n; ++block) {
      const std::size_t n = std::min(cut.length(block), a.n - begin);
      const std::size_t offset = begin * sizeof(T);
      encode_block<F>(x + offset, residual ? residual + offset : nullptr, n, a.params, wire, random,
                      a.noise.index + begin, result);
      wire += block_bytes(n);
      begin += n;
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  template <Feedback F, class Random>
  static MQ_INLINE void encode_block(const std::byte* x, std::byte* residual, std::size_t n,
                                     const Params& params, std::byte* wire, Random& random,
                                     std::uint64_t index, Encoded& result) {
    std::byte* const codes = wire + kScaleBytes;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    Statistics statistics{};
    if constexpr (kScaled) {
      measure_block<F>(x, residual, n, params, statistics, codes);
      if (!statistics.finite) {
        result.nonfinite += encode_marked_block<F>(x, residual, n, wire);
        return;
      }
      const Scale scale = statistics.means();
      std::memcpy(wire, &scale, sizeof scale);
    }
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (!kScaled) ask<F>(x, residual, g);
      quantize_group<F>(x, residual, g, statistics, codes, random, index, Whole{}, result);
    }
    if (rest) quantize_group<F>(x, residual, whole, statistics, codes, random, index, Part{rest}, result);
  }

  // Pass 1 of a scaled block: computes its statistics, and its codes if they do not depend on pass 2. With
  // carry, v is in the residual afterwards.
  template <Feedback F>
  static MQ_INLINE void measure_block(const std::byte* x, std::byte* residual, std::size_t n,
                                      const Params& params, Statistics& statistics, std::byte* codes) {
    measure_pieces<F>(x, residual, n, statistics, codes);
    if (statistics.finite && statistics.again(params))
      measure_pieces<Feedback::none>(F == Feedback::carry ? residual : x, nullptr, n, statistics, codes);
  }

  template <Feedback F>
  static MQ_INLINE void measure_pieces(const std::byte* x, std::byte* residual, std::size_t n,
                                       Statistics& statistics, std::byte* codes) {
    for (std::size_t begin = 0; begin < n; begin += kSumPiece) {
      const std::size_t m = std::min(kSumPiece, n - begin), offset = begin * sizeof(T);
      std::byte* const kept = F != Feedback::none ? residual + offset : nullptr;
      std::byte* const code = codes + Q::template code_bytes<T>(begin);
      if (measure_piece<F, false>(x + offset, kept, m, statistics, code)) continue;
      // A sum was not finite: an element is not finite, or finite elements are huge. With carry, the first
      // attempt left v = x + residual in the residual.
      const std::byte* const v = F == Feedback::carry ? kept : x + offset;
      statistics.finite &= measure_piece<Feedback::none, true>(v, nullptr, m, statistics, code);
    }
  }

  // False if a sum is not finite; then `statistics` is unchanged.
  template <Feedback F, bool kHuge>
  static MQ_INLINE bool measure_piece(const std::byte* x, std::byte* residual, std::size_t n,
                                      Statistics& statistics, std::byte* codes) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    typename Q::template Stat<T, kHuge> stat(statistics);
    for (std::size_t g = 0; g < whole; ++g) {
      ask<F>(x, residual, g);
      stat.add(sum_group<F>(x, residual, g, Whole{}), codes + code_offset(g), Whole{});
    }
    if (rest) stat.add(sum_group<F>(x, residual, whole, Part{rest}), codes + code_offset(whole), Part{rest});
    return stat.finish(n, statistics);
  }

  // Pass 1 of a scaled block: computes v of one group. With carry, v replaces the residual, where pass 2
  // finds it in L1.
  template <Feedback F, class W>
  static MQ_INLINE L sum_group(const std::byte* x, std::byte* residual, std::size_t g, W width) {
    L v = L::load(x + g * kGroupBytes, width);
    if constexpr (F == Feedback::carry) {
      v = v + L::load(residual + g * kGroupBytes, width);
      v.store(residual + g * kGroupBytes, width);
    }
    return v;
  }

  template <Feedback F>
  static MQ_INLINE void ask(const std::byte* x, const std::byte* residual, std::size_t g) {
    ask_ahead<T>(x, g);
    if constexpr (F != Feedback::none) ask_ahead<T>(residual, g);
  }

  template <Feedback F, class Random, class W>
  static MQ_INLINE void quantize_group(const std::byte* x, std::byte* residual, std::size_t g,
                                       const Statistics& statistics, std::byte* codes,
                                       [[maybe_unused]] Random& random, [[maybe_unused]] std::uint64_t index,
                                       W width, [[maybe_unused]] Encoded& result) {
    constexpr bool kInResidual = kScaled && F == Feedback::carry;  // pass 1 left v there
    L v = L::load((kInResidual ? residual : x) + g * kGroupBytes, width);
    if constexpr (F == Feedback::carry && !kScaled) v = v + L::load(residual + g * kGroupBytes, width);
    // Rows that round at random do less if all elements are finite, as they mostly are.
    const bool all_finite = std::is_same_v<Random, Noise> && v.all_finite();
    constexpr bool kExact = kPutsExact && std::is_same_v<W, Whole>;
    std::byte* const code = codes + code_offset(g);
    L rounded = v, decoded;
    if constexpr (std::is_same_v<Random, Noise>) {
      rounded = Q::template dithered<T>(v, random.template bits_at<T>(index + g * kLanes));
      if (!all_finite) [[unlikely]]
        rounded = L::select(v.finite(), rounded, v);
    }
    if (kExact && all_finite) [[likely]] {
      if constexpr (kExact) Q::template put_exact<T>(rounded, code);
      decoded = rounded;
    } else {
      decoded = Q::template put<T>(rounded, statistics, code, width);
    }
    if constexpr (F != Feedback::none) {
      L error = v - decoded;
      if (!kScaled && !all_finite) [[unlikely]]
        error = L::select(decoded.finite(), error, L::all(T{0}));
      if constexpr (F == Feedback::deposit)
        error = deposited(L::load(residual + g * kGroupBytes, width), error);
      error.store(residual + g * kGroupBytes, width);
    }
    if (!kScaled && !all_finite) count_group(v, code, width, result);
  }

  // Counts elements that are not finite, and those that become so. One comparison tells whether there are
  // any.
  template <class W>
  static MQ_INLINE void count_group(const L& v, [[maybe_unused]] const std::byte* code, W width,
                                    Encoded& result) {
    if constexpr (kOverflows) {
      const std::uint32_t fits = L::all(static_cast<T>(Q::kGreatest)).at_least(v.abs()).bits();
      if ((~fits & width.bits) == 0) [[likely]]
        return;
      const std::uint32_t decoded = Q::template get<T>(NoScale{}, code, width).finite().bits();
      result.overflows +=
          static_cast<std::uint64_t>(std::popcount(~decoded & v.finite().bits() & width.bits));
    }
    result.nonfinite += static_cast<std::uint64_t>(std::popcount(~v.finite().bits() & width.bits));
  }

  // A block with NaN or Inf: the codes mark where these are. With a residual, all finite elements stay in it
  // and decode to 0. Without a residual they would be lost unnoticed, so they decode to NaN. This case is
  // rare, so the code is simple.
  template <Feedback F>
  static std::uint64_t encode_marked_block(const std::byte* x, std::byte* residual, std::size_t n,
                                           std::byte* wire) {
    const NonFinite<T> marked = nonfinite_of<T>(F == Feedback::carry ? residual : x, n);
    constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
    const Scale scale = Q::template marks<T>(marked.mark, residual ? T{0} : kNan);
    std::memcpy(wire, &scale, sizeof scale);
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) mark_group<F>(x, residual, g, wire + kScaleBytes, Whole{});
    if (rest) mark_group<F>(x, residual, whole, wire + kScaleBytes, Part{rest});
    return marked.count;
  }

  template <Feedback F, class W>
  static void mark_group(const std::byte* x, std::byte* residual, std::size_t g, std::byte* codes, W width) {
    const L v = L::load((F == Feedback::carry ? residual : x) + g * kGroupBytes, width);
    Q::put_marks(~v.finite().bits() & width.bits, codes + code_offset(g), width);
    if constexpr (F != Feedback::none) {
      L kept = L::select(v.finite(), v, L::all(T{0}));
      if constexpr (F == Feedback::deposit)
        kept = deposited(L::load(residual + g * kGroupBytes, width), kept);
      kept.store(residual + g * kGroupBytes, width);
    }
  }

  // A block on a wire.
  struct Coded {
    Scale scale{};
    const std::byte* codes = nullptr;
    // False if encode cannot have written it.
    MQ_INLINE bool open(const std::byte* wire, [[maybe_unused]] std::size_t n) {
      codes = wire + kScaleBytes;
      if constexpr (requires { Q::template padding_ok<T>(codes, n); })
        if (!Q::template padding_ok<T>(codes, n)) return false;
      if constexpr (kScaled) {
        if (!Q::padding_ok(codes, n)) return false;
        std::memcpy(&scale, wire, sizeof scale);
      }
      return true;
    }
  };

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const WireView wire{a.wire, a.wire_bytes};
    return decode_wires<kAdd>(a, &wire, std::integral_constant<std::size_t, 1>{}, stream);
  }
  template <bool kAdd>
  static Decoded decode_sum_as(const DecodeArgs& a, std::span<const WireView> wires, bool stream) {
    return count_by<kAdd>(wires.size(),
                          [&](auto count) { return decode_wires<kAdd>(a, wires.data(), count, stream); });
  }

  template <bool kAdd, class Count>
  static Decoded decode_wires(const DecodeArgs& a, const WireView* wires, Count count, bool stream) {
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const Cut cut = cut_of(a.params, a.n);
    std::size_t at = 0;  // of the block on each wire
    for (std::size_t begin = 0, block = 0; begin < a.n; ++block) {
      const std::size_t n = std::min(cut.length(block), a.n - begin), offset = begin * sizeof(T);
      Coded coded[kMostOf<Count>];
      for (std::size_t i = 0; i < count; ++i)
        if (!coded[i].open(wires[i].data() + at, n)) return Decoded::malformed;
      const auto groups = [&](auto store) __attribute__((always_inline)) {
        decode_groups<kAdd>(x + offset, kAdd ? base + offset : nullptr, n, coded, count, store);
      };
      store_by(stream, x + offset, groups);
      at += block_bytes(n);
      begin += n;
    }
    return Decoded::ok;
  }

  template <bool kAdd, class Count, class Store>
  static MQ_INLINE void decode_groups(std::byte* x, const std::byte* base, std::size_t n, const Coded* coded,
                                      Count count, Store store) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      decoded_group<kAdd>(base, g, coded, count, Whole{}).store(x + g * kGroupBytes, store);
    }
    if (rest)
      decoded_group<kAdd>(base, whole, coded, count, Part{rest}).store(x + whole * kGroupBytes, Part{rest});
  }

  template <bool kAdd, class Count, class W>
  static MQ_INLINE L decoded_group(const std::byte* base, std::size_t g, const Coded* coded, Count count,
                                   W width) {
    const auto one = [&](std::size_t i) __attribute__((always_inline)) {
      return Q::template get<T>(coded[i].scale, coded[i].codes + code_offset(g), width);
    };
    L sum = sum_of<kAdd>(base, g, one(0), width);
    for (std::size_t i = 1; i < count; ++i) sum = sum_of(sum, one(i));
    return sum;
  }
};
