// bound: a sum with a guaranteed error. Every element of the result is within `abs` of the exact sum, on any
// number of ranks, over any plan and in any order of arrival; besides, there may be the rounding of an
// ordinary sum, see below. While there is none, all plans give the same bits.
//
// `rel` in place of `abs`: abs is then rel times the greatest finite magnitude of any rank's vector, which
// the ranks agree on in each call.
//
//   step      the greatest power of two <= 2 abs / P, P ranks; 2^100 at most
//   k         v / step, rounded to the nearest integer, ties to even
//   decoded   k step, exact
//
// A sum of such values is a multiple of step, and exact while it is below 2^24 step (doubles: 2^53 step). So
// what the ranks' own elements lose, at most step / 2 each, is all: later encodes of sums lose nothing, and
// the error is at most P step / 2 <= abs. Plans encode the elements of every rank before any are added
// (kExactSums).
//
// If that power is no normal number, everything is sent as it is.
//
// Numbers k below -2^22 or from 2^22 on (doubles: 2^51), NaN and Inf: the block around them is sent as it is,
// and loses nothing. A sum with them need not be a multiple of step, and its next encode may round it, once
// for the rounding that the rank was spared: the error stays within P step / 2.
//
// A sum with a term that is no multiple of step, or beyond 2^24 step, is rounded to the element type as every
// sum is: by up to 2^-24 (doubles: 2^-53) of the sum. If that matters beside `abs`, the vector should be one
// of doubles.
//
// The bound of each result holds without error feedback. With feedback a rank rounds the sum of its vector
// and its residual. The sum of the results of all calls is then within abs of the sum of all vectors. A
// single result is within 2 abs; with `rel` it may also contain what earlier calls with a greater step left
// out.
//
// Plans add in different orders. So where sums are rounded, the result depends on the plan.
//
// growth=sqrt: step <= 2 abs / sqrt(P). Where the ranks' rounding errors are independent they mostly cancel,
// and the error is usually within abs. This is a probability and no guarantee; the guarantee is sqrt(P) abs.
// Ranks with equal vectors have equal errors, which do not cancel.
//
// Wire, per block of 256 elements: a byte of mode (upper two bits) and width (others), then
//
//   plain   the numbers k, as k + 2^(width - 1), packed with `width` bits each (lattice/packing-inl.hpp)
//   delta   the first k, as a word; the differences of each k to the one before, packed in the same way. The
//           first is 0
//   raw     the elements as they are, or, if they are within the range but packing is not shorter, the values
//           k step
//
// width is the least that holds all numbers of the block; 0 if they are all 0. The shorter of plain and delta
// is sent, plain if they are equal. Columns of the last row without an element repeat the last k.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/lattice/packing-inl.hpp"

template <class T, class Q>
struct Lattice : RowFunctions<Lattice<T, Q>> {
  static constexpr bool kFixedSize = false;
  using L = Lanes<T>;
  using Word = typename L::Bits;
  using Packing = BitPacking<Word>;
  using Wire = LatticeWire<T>;
  using Form = typename Wire::Form;
  static constexpr std::size_t kBlock = Wire::kBlock, kGroupBytes = kLanes * sizeof(T);
  static constexpr T kRounder = Wire::kRounder;
  static constexpr Word kZero = Wire::kZero;

  static std::size_t wire_bytes(std::size_t n, const Params&) { return Wire::wire_bytes(n); }

 private:
  friend RowFunctions<Lattice>;

  // The least and the greatest of 0 and of numbers that are given as bit patterns k + zero.
  class Range {
   public:
    explicit MQ_INLINE Range(Word zero) : zero_(zero), low_(L::all_bits(zero)), high_(low_) {}
    MQ_INLINE void add(const L& k) {
      low_ = low_.bits_least(k);
      high_ = high_.bits_greatest(k);
    }
    // The least width that holds all (lattice/packing-inl.hpp); 0 if they are all 0.
    MQ_INLINE int width() const {
      const L below = L::all_bits(zero_ - 1);
      const Word any = high_.bits_subtract(L::all_bits(zero_))
                           .bits_or(below.bits_subtract(low_.bits_least(below)))
                           .any_lane();
      if (any != 0) return static_cast<int>(std::bit_width(any)) + 1;
      return low_.bits_subtract(L::all_bits(zero_)).any_lane() != 0;  // all are 0 or -1
    }

   private:
    Word zero_;
    L low_, high_;
  };

  // A block's numbers, as bit patterns k + kZero, and how they are sent.
  struct Block {
    alignas(64) Word space[64 / sizeof(Word) + kBlock];
    Form form;
    MQ_INLINE Block() {}  // not implicit: that would be compiled for the baseline processor
    MQ_INLINE Word* k() { return space + 64 / sizeof(Word); }
    MQ_INLINE const Word* k() const { return space + 64 / sizeof(Word); }
    MQ_INLINE L group(std::size_t g) const { return at(k() + g * kLanes); }
    // Of each number to the one before.
    MQ_INLINE L differences(std::size_t g) const { return group(g).bits_subtract(at(k() + g * kLanes - 1)); }
    MQ_INLINE void set_group(std::size_t g, const L& v) {
      v.store(reinterpret_cast<std::byte*>(k() + g * kLanes), Whole{});
    }
    // k step
    MQ_INLINE L values(std::size_t g, T step) const { return (group(g) - L::all(kRounder)) * L::all(step); }

   private:
    static MQ_INLINE L at(const Word* word) {
      return L::load(reinterpret_cast<const std::byte*>(word), Whole{});
    }
  };

  static constexpr std::size_t groups_of(std::size_t n) { return (n + kLanes - 1) / kLanes; }

  // Not unrolled: the processor foresees which cache lines a load will read if the same instruction reads
  // them.
  template <class Group>
  static MQ_INLINE void for_groups(std::size_t n, Group&& group) {
#pragma GCC unroll 1
    for (std::size_t g = 0; g < n / kLanes; ++g) group(g, Whole{});
    if (n % kLanes != 0) group(n / kLanes, Part{n % kLanes});
  }

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const T step = Q::template step<T>(a.params, a.noise.ranks);
    std::byte* wire = a.wire;
    Encoded result;
    Block block;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      measure(source, n, T{1} / step, block);
      *wire++ = static_cast<std::byte>(block.form.head());
      if (block.form.mode == Wire::kRaw) {
        result.nonfinite += write_raw(source, n, step, block, wire);
        wire += n * sizeof(T);
      } else {
        if constexpr (F != Feedback::none) keep_residual(source, n, step, block);
        wire = pack(block, n, wire);
      }
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  // Pass 1 of a block.
  template <Feedback F>
  static MQ_INLINE void measure(const Source<T, F>& source, std::size_t n, T inverse, Block& block) {
    Range range(kZero);
    const auto group = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      ask_ahead<T>(source.x, g);
      const L k = source.v(g, width) * L::all(inverse) + L::all(kRounder);
      block.set_group(g, k);
      range.add(k);
    };
    for_groups(n, group);
    std::fill(block.k() + n, block.k() + groups_of(n) * kLanes, block.k()[n - 1]);
    const int width = range.width();
    block.form = Form::of(n, width, Wire::in_range(width) ? width_of_differences(n, width, block) : width);
  }

  // Or `width`, if it is no less.
  static MQ_INLINE int width_of_differences(std::size_t n, int width, Block& block) {
    // Most blocks whose numbers are independent are known by some of them.
    if (width == 0 || !Packing::differences_have(block.k(), kLanes / Packing::kColumns, width - 1))
      return width;
    block.k()[-1] = block.k()[0];
    Range range(0);
    for (std::size_t g = 0; g < groups_of(n); ++g) range.add(block.differences(g));
    return range.width();
  }

  // Pass 2. It asks for the residual, so that not all that is asked for is asked for in pass 1.
  template <Feedback F>
  static MQ_INLINE void keep_residual(const Source<T, F>& source, std::size_t n, T step, const Block& block) {
    const auto group = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      ask_ahead<T>(source.residual, g);
      source.keep(g, source.v(g, width) - block.values(g, step), width);
    };
    for_groups(n, group);
  }

  template <Feedback F>
  static std::uint64_t write_raw(const Source<T, F>& source, std::size_t n, T step, const Block& block,
                                 std::byte* wire) {
    std::uint64_t nonfinite = 0;
    const auto group = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      if constexpr (F != Feedback::none) ask_ahead<T>(source.residual, g);
      const L v = source.v(g, width), sent = block.form.outside ? v : block.values(g, step);
      sent.store(wire + g * kGroupBytes, width);
      source.keep(g, block.form.outside ? L::all(T{0}) : v - sent, width);
      nonfinite += static_cast<std::uint64_t>(std::popcount(~v.finite().bits() & width.bits));
    };
    for_groups(n, group);
    return nonfinite;
  }

  static MQ_INLINE std::byte* pack(Block& block, std::size_t n, std::byte* wire) {
    const int width = block.form.width;
    const bool delta = block.form.mode == Wire::kDelta;
    if (delta) {
      const Word first = block.k()[0] - kZero;
      std::memcpy(wire, &first, sizeof first);
      wire += sizeof first;
      for (std::size_t g = groups_of(n); g-- > 0;) block.set_group(g, block.differences(g));
    }
    if (width > 0) Packing::pack(wire, block.k(), Packing::rows_of(n), width, delta ? 0 : kZero);
    return wire + Packing::bytes(n, width);
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const T step = Q::template step<T>(a.params, a.noise.ranks);
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte *wire = a.wire, *const end = a.wire + a.wire_bytes;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), offset = begin * sizeof(T);
      bool ok = true;
      const auto block = [&](auto store) __attribute__((always_inline)) {
        ok = decode_block<kAdd>(x + offset, kAdd ? base + offset : nullptr, n, step, wire, end, store);
      };
      store_by(stream, x + offset, block);
      if (!ok) return Decoded::malformed;
    }
    return wire == end ? Decoded::ok : Decoded::malformed;
  }

  // Moves `wire` behind the block. False if encode cannot have written it.
  template <bool kAdd, class Store>
  static MQ_INLINE bool decode_block(std::byte* x, const std::byte* base, std::size_t n, T step,
                                     const std::byte*& wire, const std::byte* end, Store store) {
    if (wire == end) return false;
    const Form form = Form::of_head(std::to_integer<std::uint8_t>(*wire++));
    const auto left = static_cast<std::size_t>(end - wire);
    const std::byte* const codes = wire;
    if (!form.valid(n) || left < form.bytes(n)) return false;
    wire += form.bytes(n);
    if (form.mode == Wire::kRaw) {
      const auto raw = [&](std::size_t g, auto width) __attribute__((always_inline)) {
        return L::load(codes + g * kGroupBytes, width);
      };
      put_groups<kAdd>(x, base, n, store, raw);
      return true;
    }
    Block block;
    block.form = form;
    if (step == T{0} || !unpack(block, n, codes)) return false;
    const auto values = [&](std::size_t g, auto) __attribute__((always_inline)) {
      return block.values(g, step);
    };
    put_groups<kAdd>(x, base, n, store, values);
    return true;
  }

  template <bool kAdd, class Store, class Get>
  static MQ_INLINE void put_groups(std::byte* x, const std::byte* base, std::size_t n, Store store,
                                   Get&& get) {
    const auto group = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      const L sum = sum_of<kAdd>(base, g, get(g, width), width);
      if constexpr (std::is_same_v<decltype(width), Part>) {
        sum.store(x + g * kGroupBytes, width);
      } else {
        if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
        sum.store(x + g * kGroupBytes, store);
      }
    };
    for_groups(n, group);
  }

  static MQ_INLINE bool unpack(Block& block, std::size_t n, const std::byte* wire) {
    const int width = block.form.width;
    const bool delta = block.form.mode == Wire::kDelta;
    const std::size_t rows = Packing::rows_of(n);
    Word* const k = block.k();
    Word first = 0;
    if (delta) {
      std::memcpy(&first, wire, sizeof first);
      wire += sizeof first;
    }
    bool ok = Packing::unpack(wire, k, rows, width, delta ? 0 : kZero);
    if (delta)
      ok = ok && k[0] == 0 && Packing::add_up(k, rows, first + kZero, kZero, Word{1} << Wire::kLimitBits);
    const Word last = k[n - 1];
    for (std::size_t i = n; i < rows * Packing::kColumns; ++i) ok = ok && k[i] == last;
    std::fill(k + rows * Packing::kColumns, k + groups_of(n) * kLanes, last);
    return ok;
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

  // Parameters.
  static constexpr std::array<std::string_view, 2> kGrowth{"worst", "sqrt"};
  static constexpr std::array kSpecs{
      ParamSpec{"abs", "greatest error of an element of the result", ParamKind::real, 1e-3, 1e-18, 1e18},
      ParamSpec{"growth", "how errors of ranks add up: at worst, or as random ones do", ParamKind::word, 0, 0,
                1, kGrowth},
      ParamSpec{"rel",
                "the same as a share of the greatest magnitude of all ranks; 0: abs counts",
                ParamKind::real,
                0,
                0,
                1,
                {},
                "abs"}};

  // What sets the step: abs, as given or as settled.
  static Measures measures(const Params& p) noexcept {
    return p.value[2] > 0 ? Measures::each_call : Measures::nothing;
  }
  // The greatest finite magnitude. NaN and Inf go as they are, so they set no step.
  template <class T>
  static Measured measure(const std::byte* x, std::size_t n, const Params&) {
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
  static Params settle(const Params& p, const Measured& measured) noexcept {
    Params settled = p;
    settled.value[2] = 0;
    if (measured[0] > 0) settled.value[0] = p.value[2] * measured[0];
    return settled;
  }

  // 0: elements are sent as they are.
  template <class T>
  static T step(const Params& p, int ranks) {
    return bound_step<T>(p, ranks);
  }

  // Wire format.
  static constexpr std::size_t block(const Params&) { return LatticeWire<float>::kBlock; }

  // Bounds.
  // What one rank's element may lose; not known before rel is settled.
  static double absolute_bound(const Params& p, int ranks) {
    return p.value[2] > 0 ? 0 : std::ldexp(0.5, bound_exponent(p, ranks));
  }
};
