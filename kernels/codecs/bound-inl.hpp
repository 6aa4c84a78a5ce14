// bound: a sum with a guaranteed error. Every element of the result is within `abs` of the exact sum, on any number of
// ranks, over any plan and in any order of arrival; besides, there may be the rounding of an ordinary sum, see below. While
// there is none, all plans give the same bits.
//
// `rel` in place of `abs`: abs is then rel times the greatest finite magnitude of any rank's vector, which the ranks agree
// on in each call.
//
//   step      the greatest power of two <= 2 abs / P, P ranks; 2^100 at most
//   k         v / step, rounded to the nearest integer, ties to even
//   decoded   k step, exact
//
// A sum of such values is a multiple of step, and exact while it is below 2^24 step (doubles: 2^53 step). So what the
// ranks' own elements lose, at most step / 2 each, is all: later encodes of sums lose nothing, and the error is at most
// P step / 2 <= abs. Plans encode the elements of every rank before any are added (kExactSums).
//
// If that power is no normal number, everything is sent as it is.
//
// Numbers k beyond 2^22 (doubles: 2^51), NaN and Inf: the 256 elements around them are sent as they are, and lose nothing.
// A sum with them need not be a multiple of step, and its next encode may round it, once for the rounding that the
// rank was spared: the error stays within P step / 2.
//
// A sum with a term that is no multiple of step, or beyond 2^24 step, is rounded to the element type as every sum is: by
// up to 2^-24 (doubles: 2^-53) of itself. If that matters beside `abs`, the vector should be one of doubles.
//
// The bound of each result holds without error feedback. With feedback a rank rounds the sum of its vector and its
// residual. The sum of the results of all calls is then within abs of the sum of all vectors. A single result is within
// 2 abs; with `rel` it may also contain what earlier calls with a greater step left out.
//
// Plans add in different orders. So where sums are rounded, the result depends on the plan.
//
// growth=sqrt: step <= 2 abs / sqrt(P). Where the ranks' rounding errors are independent they mostly cancel, and the error
// is usually within abs. This is a probability and no guarantee; the guarantee is sqrt(P) abs. Ranks with equal vectors
// have equal errors, which do not cancel.
//
// Wire, per block of 1024 elements: a byte. 0: all parts raw, because packing would not be shorter. 1: four
// parts of 256 elements, each with a byte of mode (upper two bits) and width (others):
//
//   plain   the numbers k, as 2 |k| or 2 |k| - 1 if k < 0, packed with `width` bits each (host/bit_packing-inl.hpp)
//   delta   the first k, as a word; the differences of each k to the one before, packed likewise. The first is 0
//   raw     the elements as they are, or, if they are within the range but packing is longer, the values k step
//
// width is the least that holds all numbers of the part. The shorter of plain and delta is sent, plain if they are equal.
#pragma once
#include "kernels/host/bit_packing-inl.hpp"
#include "kernels/host/family-inl.hpp"

template <class T, class Q>
struct Lattice : RowFunctions<Lattice<T, Q>> {
  static constexpr bool kFixedSize = false;
  using L = Lanes<T>;
  using Word = typename L::Bits;
  using Signed = std::make_signed_t<Word>;
  using Packing = BitPacking<Word>;
  static constexpr std::size_t kBlock = 1024, kPart = 256, kParts = kBlock / kPart,
                               kGroupBytes = kLanes * sizeof(T);
  static constexpr int kLimitBits = sizeof(T) == 4 ? 22 : 51;
  static constexpr Signed kLimit = Signed{1} << kLimitBits;
  // Added to a number of magnitude up to kLimit, it rounds it to an integer, which is then in the lowest bits of the sum.
  static constexpr T kRounder = static_cast<T>(sizeof(T) == 4 ? 0x1.8p23 : 0x1.8p52);
  enum Mode : std::uint8_t { kPlain, kDelta, kRaw };

  static std::size_t wire_bytes(std::size_t n, const Params&) {
    return n * sizeof(T) + (n + kBlock - 1) / kBlock;
  }

 private:
  friend RowFunctions<Lattice>;

  struct Part256 {
    Mode mode;
    int width;
    std::size_t bytes;  // with the byte of mode and width
    bool outside;  // a number is beyond kLimit: the elements are sent as they are, not rounded to the step
  };
  // The integers of a block, and how its parts are sent. Numbers behind the last element are 0.
  struct Plan {
    Signed k[kBlock];
    Part256 part[kParts];
    std::size_t bytes;
    MQ_INLINE Plan() {}  // not implicit: that would be compiled for the baseline processor
  };

  static MQ_INLINE Word zigzag(Signed k) {
    return (static_cast<Word>(k) << 1) ^ static_cast<Word>(k >> (8 * sizeof(Word) - 1));
  }
  static MQ_INLINE Signed unzigzag(Word z) { return static_cast<Signed>((z >> 1) ^ (~(z & 1) + 1)); }

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const T step = Q::template step<T>(a.params, a.site.ranks);
    std::byte* wire = a.wire;
    Encoded result;
    Plan plan;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      measure_block(source, n, T{1} / step, plan);
      const bool packed = plan.bytes < n * sizeof(T);
      *wire++ = std::byte{packed};
      for (std::size_t p = 0; p * kPart < n; ++p)
        wire =
            write_part(source, p, std::min(kPart, n - p * kPart), step, plan, packed, wire, result.nonfinite);
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  // Pass 1 of a block.
  template <Feedback F>
  static MQ_INLINE void measure_block(const Source<T, F>& source, std::size_t n, T inverse, Plan& plan) {
    plan.bytes = 0;
    for (std::size_t p = 0; p * kPart < n; ++p) {
      const std::size_t m = std::min(kPart, n - p * kPart), first = p * (kPart / kLanes);
      std::uint32_t outside = 0;
      for (std::size_t g = 0; g * kLanes < m; ++g) {
        source.ask(first + g);
        const std::size_t rest = m - g * kLanes;
        const L v = rest >= kLanes ? source.v(first + g, Whole{}) : source.v(first + g, Part{rest});
        const L scaled = v * L::all(inverse);
        outside |= ~L::all(static_cast<T>(kLimit)).at_least(scaled.abs()).bits();  // NaN is outside, too
        const L k = (scaled + L::all(kRounder)).bits_add(L::all_bits(~std::bit_cast<Word>(kRounder) + 1));
        k.store(reinterpret_cast<std::byte*>(plan.k + p * kPart + g * kLanes), Whole{});
      }
      plan.part[p] =
          outside != 0 ? Part256{kRaw, 0, 1 + m * sizeof(T), true} : part_of(plan.k + p * kPart, m);
      plan.bytes += plan.part[p].bytes;
    }
  }

  static MQ_INLINE Part256 part_of(const Signed* k, std::size_t n) {
    Word plain = 0, delta = 0;
    for (std::size_t i = 0; i < n; ++i) plain |= zigzag(k[i]);
    for (std::size_t i = 1; i < n; ++i) delta |= zigzag(k[i] - k[i - 1]);
    const int plain_width = static_cast<int>(std::bit_width(plain)),
              delta_width = static_cast<int>(std::bit_width(delta));
    const std::size_t plain_bytes = 1 + Packing::bytes(n, plain_width);
    const std::size_t delta_bytes = 1 + sizeof(Word) + Packing::bytes(n, delta_width);
    const std::size_t raw_bytes = 1 + n * sizeof(T);
    if (std::min(plain_bytes, delta_bytes) >= raw_bytes) return {kRaw, 0, raw_bytes, false};
    if (delta_bytes < plain_bytes) return {kDelta, delta_width, delta_bytes, false};
    return {kPlain, plain_width, plain_bytes, false};
  }

  // Pass 2 of a part.
  template <Feedback F>
  static MQ_INLINE std::byte* write_part(const Source<T, F>& source, std::size_t p, std::size_t n, T step,
                                         const Plan& plan, bool packed, std::byte* wire,
                                         std::uint64_t& nonfinite) {
    const Part256& part = plan.part[p];
    const bool raw = !packed || part.mode == kRaw;
    if (packed) *wire++ = static_cast<std::byte>(part.mode << 6 | part.width);
    for (std::size_t g = 0; g * kLanes < n; ++g) {
      const std::size_t rest = n - g * kLanes, at = p * (kPart / kLanes) + g;
      std::byte* const to = raw ? wire + g * kGroupBytes : nullptr;
      const std::byte* const k = reinterpret_cast<const std::byte*>(plan.k + p * kPart + g * kLanes);
      nonfinite += rest >= kLanes ? write_group(source, at, k, step, part.outside, to, Whole{})
                                  : write_group(source, at, k, step, part.outside, to, Part{rest});
    }
    if (raw) return wire + n * sizeof(T);
    pack_part(plan.k + p * kPart, n, part, wire);
    return wire + part.bytes - 1;
  }

  // The residual of a group and, if `raw` is not null, its values.
  template <Feedback F, class W>
  static MQ_INLINE std::uint64_t write_group(const Source<T, F>& source, std::size_t g, const std::byte* k,
                                             T step, bool outside, std::byte* raw, W width) {
    if (F == Feedback::none && raw == nullptr) return 0;
    const L v = source.v(g, width), sent = outside ? v : value(L::load(k, Whole{}), step);
    if (raw != nullptr) sent.store(raw, width);
    source.keep(g, outside ? L::all(T{0}) : v - sent, width);
    if (!outside) return 0;
    return static_cast<std::uint64_t>(std::popcount(~v.finite().bits() & width.bits));
  }

  // k step, of bit patterns k.
  static MQ_INLINE L value(const L& k, T step) {
    return (k.bits_add(L::all(kRounder)) - L::all(kRounder)) * L::all(step);
  }

  static MQ_INLINE void pack_part(const Signed* k, std::size_t n, const Part256& part, std::byte* wire) {
    alignas(64) Word z[kPart] = {};
    if (part.mode == kDelta) {
      std::memcpy(wire, k, sizeof(Word));
      wire += sizeof(Word);
      for (std::size_t i = 1; i < n; ++i) z[i] = zigzag(k[i] - k[i - 1]);
    } else {
      for (std::size_t i = 0; i < n; ++i) z[i] = zigzag(k[i]);
    }
    Packing::pack(wire, z, n, part.width);
  }

  template <bool kAdd, bool kStream>
  static Decoded decode_as(const DecodeArgs& a) {
    const T step = Q::template step<T>(a.params, a.site.ranks);
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte *wire = a.wire, *const end = a.wire + a.wire_bytes;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin);
      if (wire == end) return Decoded::malformed;
      const std::byte packed = *wire++;
      const std::byte* const block = wire;
      if (packed > std::byte{step > T{0}}) return Decoded::malformed;
      for (std::size_t p = 0; p * kPart < n; ++p) {
        const std::size_t m = std::min(kPart, n - p * kPart), offset = (begin + p * kPart) * sizeof(T);
        bool ok = true;
        const auto part = [&](auto store) __attribute__((always_inline)) {
          ok = decode_part<kAdd>(x + offset, kAdd ? base + offset : nullptr, m, step, packed != std::byte{0},
                                 wire, end, store);
        };
        store_by<T, kStream>(x + offset, part);
        if (!ok) return Decoded::malformed;
      }
      // encode packs only what becomes shorter
      if (packed != std::byte{0} && static_cast<std::size_t>(wire - block) >= n * sizeof(T))
        return Decoded::malformed;
    }
    return wire == end ? Decoded::ok : Decoded::malformed;
  }

  // Moves `wire` behind the part. False if encode cannot have written it.
  template <bool kAdd, class Store>
  static MQ_INLINE bool decode_part(std::byte* x, const std::byte* base, std::size_t n, T step, bool packed,
                                    const std::byte*& wire, const std::byte* end, Store store) {
    alignas(64) Signed k[kPart];
    const std::byte* raw = nullptr;
    if (!packed || (wire != end && *wire == static_cast<std::byte>(kRaw << 6))) {
      wire += packed;
      if (static_cast<std::size_t>(end - wire) < n * sizeof(T)) return false;
      raw = wire;
      wire += n * sizeof(T);
    } else if (!unpack_part(k, n, wire, end)) {
      return false;
    }
    for (std::size_t g = 0; g * kLanes < n; ++g) {
      const std::size_t rest = n - g * kLanes;
      std::byte* const to = x + g * kGroupBytes;
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      const auto group = [&](auto width) __attribute__((always_inline)) {
        const L decoded =
            raw != nullptr
                ? L::load(raw + g * kGroupBytes, width)
                : value(L::load(reinterpret_cast<const std::byte*>(k + g * kLanes), Whole{}), step);
        return sum_of<kAdd>(base, g, decoded, width);
      };
      if (rest >= kLanes)
        group(Whole{}).store(to, store);
      else
        group(Part{rest}).store(to, Part{rest});
    }
    return true;
  }

  static MQ_INLINE bool unpack_part(Signed* k, std::size_t n, const std::byte*& wire, const std::byte* end) {
    if (wire == end) return false;
    const unsigned head = std::to_integer<unsigned>(*wire++);
    const auto mode = static_cast<Mode>(head >> 6);
    const int width = static_cast<int>(head & 63);
    // Of all parts that can hold numbers up to kLimit this is the greatest width.
    if ((mode != kPlain && mode != kDelta) || width > kLimitBits + 2 + (mode == kDelta)) return false;
    const std::size_t bytes = (mode == kDelta ? sizeof(Word) : 0) + Packing::bytes(n, width);
    if (static_cast<std::size_t>(end - wire) < bytes || bytes >= n * sizeof(T)) return false;
    Word first = 0, all = 0, beyond = 0;
    if (mode == kDelta) std::memcpy(&first, wire, sizeof first);
    alignas(64) Word z[kPart];
    bool ok = Packing::unpack(wire + bytes - Packing::bytes(n, width), z, n, width);
    for (std::size_t i = n; i < Packing::rows_of(n) * Packing::kColumns; ++i) ok &= z[i] == 0;
    for (std::size_t i = 0; i < n; ++i) all |= z[i];
    if (mode == kDelta) {
      ok &= z[0] == 0;
      Word sum = first;
      for (std::size_t i = 0; i < n; ++i) {
        sum += static_cast<Word>(unzigzag(z[i]));
        k[i] = static_cast<Signed>(sum);
      }
    } else {
      for (std::size_t i = 0; i < n; ++i) k[i] = unzigzag(z[i]);
    }
    for (std::size_t i = 0; i < n; ++i)
      beyond |= static_cast<Word>(k[i] > kLimit) | static_cast<Word>(k[i] < -kLimit);
    std::fill(k + n, k + kPart, Signed{0});
    wire += bytes;
    return ok && beyond == 0 && static_cast<int>(std::bit_width(all)) == width;
  }
};

struct Bound {
  static constexpr std::string_view kName = "bound";
  static constexpr std::string_view kWhat =
      "multiples of a step, so that every sum is within abs of the exact one";
  static constexpr std::uint16_t kId = 20;
  static constexpr bool kLossless = false, kExactSums = true;
  template <class T>
  using Family = Lattice<T, Bound>;
  static constexpr std::array<std::string_view, 2> kGrowth{"worst", "sqrt"};
  static constexpr std::array kSpecs{
      ParamSpec{"abs", "greatest error of an element of the result", ParamKind::real, 1e-3, 1e-18, 1e18},
      ParamSpec{"growth", "how errors of ranks add up: at worst, or as random ones do", ParamKind::word, 0, 0,
                1, kGrowth},
      ParamSpec{"rel", "the same as a share of the greatest magnitude of all ranks; 0: abs counts",
                ParamKind::real, 0, 0, 1}};
  static constexpr std::size_t block(const Params&) { return 1024; }
  // Only one of them would be kept. An `abs` that is the preset cannot be told from one that is not given.
  static constexpr std::string_view conflict(const Params& p) {
    return p.value[2] > 0 && p.value[0] != kSpecs[0].preset ? "give either abs or rel" : "";
  }

  // What sets the step: abs, as given or as settled.
  static Measures measures(const Params& p) noexcept {
    return p.value[2] > 0 ? Measures::each_call : Measures::nothing;
  }
  // The greatest finite magnitude. NaN and Inf go as they are, so they set no step.
  template <class T>
  static Facts measure(const std::byte* x, std::size_t n, const Params&) {
    using L = Lanes<T>;
    const DefaultFloatingPoint environment;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    const auto finite = [&](std::size_t g, auto width) {
      const L v = L::load(x + g * kLanes * sizeof(T), width);
      return L::select(v.finite(), v, L::all(T{0}));
    };
    L most = L::all(T{0});
    for (std::size_t g = 0; g < whole; ++g) most = L::greatest_magnitude(most, finite(g, Whole{}));
    if (rest) most = L::greatest_magnitude(most, finite(whole, Part{rest}));
    return {static_cast<double>(most.greatest_of_lanes())};
  }
  // With zeros, any step will do.
  static Params settle(const Params& p, const Facts& facts) noexcept {
    Params settled = p;
    settled.value[2] = 0;
    if (facts[0] > 0) settled.value[0] = p.value[2] * facts[0];
    return settled;
  }

  // The exponent of the step. Products of powers of two and whole numbers are exact.
  static int exponent(const Params& p, int ranks) {
    const double twice = 2 * p.value[0],
                 share = p.value[1] == 1 ? std::sqrt(static_cast<double>(ranks)) : ranks;
    if (!(twice > 0)) return kNoStep;
    int e = std::min(std::ilogb(twice / share), 99) + 1;  // ilogb of an infinity is the greatest int
    while (e > kNoStep && std::ldexp(share, e) > twice) --e;
    return e;
  }
  // 0: there is no such number, and elements are sent as they are.
  template <class T>
  static T step(const Params& p, int ranks) {
    const int e = exponent(p, ranks);
    return e < std::numeric_limits<T>::min_exponent - 1 ? T{0} : static_cast<T>(std::ldexp(1.0, e));
  }
  // What one rank's element may lose; not known before rel is settled.
  static double absolute_bound(const Params& p, int ranks) {
    return p.value[2] > 0 ? 0 : std::ldexp(0.5, exponent(p, ranks));
  }

 private:
  static constexpr int kNoStep = -1023;  // below all normal numbers
};
