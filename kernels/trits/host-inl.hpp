// The loops of codecs that send -s, 0 or +s for each element of a block (kernels/trits/trits.hpp). A codec
// has kName, kWhat, kId, kLossless, kSpecs, block(params), Family = Trits, and settings(params).
//
// Encode reads a block twice, as Integers does: pass 1 finds s, pass 2 the trits and the residual, with the
// block in L1.
#pragma once
#include "kernels/host/loops-inl.hpp"
#include "kernels/host/packed-inl.hpp"
#include "kernels/integers/rounding-inl.hpp"

template <class T, class Q>
struct Trits : RowFunctions<Trits<T, Q>> {
  static constexpr bool kFixedSize = true;
  using L = Lanes<T>;
  using Quantizer = integers::Quantizer<T>;
  using Settings = trits::Settings;
  using Head = trits::MarkedHead<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    return Q::settings(params).template wire_bytes<T>(n);
  }

 private:
  friend RowFunctions<Trits>;

  template <Feedback F>
  static Encoded encode_as(const EncodeArgs& a) {
    const Settings settings = Q::settings(a.params);
    std::byte* wire = a.wire;
    Noise random(a.noise);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += settings.block) {
      const std::size_t n = std::min(settings.block, a.n - begin);
      const auto source = Source<T, F>::at(a, begin);
      const T most = greatest_magnitude<true>(source, n);
      if (std::isfinite(most)) [[likely]]
        encode_block(source, n, most_sent(source, n, most, settings), wire, random, a.noise.index + begin);
      else
        result.nonfinite += encode_marked(source, n, wire);
      wire += settings.template block_bytes<T>(n);
    }
    result.bytes = static_cast<std::size_t>(wire - a.wire);
    return result;
  }

  // The s of a finite block with this greatest magnitude.
  template <Feedback F>
  static MQ_INLINE T most_sent(const Source<T, F>& source, std::size_t n, T most, const Settings& settings) {
    if (settings.clip == 0 || !(most >= Quantizer::kTiny)) return most;
    return settings.clipped(most, std::sqrt(sum_of_squares(source, n, most) / static_cast<double>(n)));
  }

  // The sum of (v / most)^2. Lane i adds the terms of elements i, i + 32, ...; the lanes are joined by
  // halving, as in a GPU's warp.
  template <Feedback F>
  static double sum_of_squares(const Source<T, F>& source, std::size_t n, T most) {
    const double share = 1 / static_cast<double>(most);
    double sum[kLanes] = {};
    const auto add = [&](const L& v) __attribute__((always_inline)) {
      T lane[kLanes];
      v.store(reinterpret_cast<std::byte*>(lane), Whole{});
      for (int i = 0; i < kLanes; ++i) {
        const double part = static_cast<double>(lane[i]) * share;
        sum[i] += part * part;
      }
    };
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) add(source.v(g, Whole{}));
    if (rest) add(source.v(whole, Part{rest}));
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
  }

  template <Feedback F>
  static MQ_INLINE void encode_block(const Source<T, F>& source, std::size_t n, T most, std::byte* wire,
                                     Noise& random, std::uint64_t index) {
    const Quantizer to = Quantizer::of(T{0}, most, 1, integers::Mark::none);
    std::memcpy(wire, &to.step, sizeof(T));
    const Rounding<L> rounding(to, 1, trits::kZero);
    const auto trits_of = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      source.ask(g);
      const L v = source.v(g, width);
      const L noise = random.template at<T>(index + g * kLanes);
      const L quantized = rounding.quantize(rounding.template steps<false>(v), noise);
      source.keep(g, v - rounding.template decoded<false>(quantized), width);
      return quantized.low_bytes();
    };
    put_trits(wire + sizeof(T), n, trits_of);
  }

  // trits_of(g, width) are the trits of group g; what is behind the last element does not matter.
  template <class TritsOf>
  static MQ_INLINE void put_trits(std::byte* wire, std::size_t n, TritsOf&& trits_of) {
    const std::size_t whole = n / kLanes, groups = (n + kLanes - 1) / kLanes;
    for (std::size_t first = 0; first < groups; first += trits::kGroups) {
      const std::size_t count = std::min(trits::kGroups, groups - first);
      Bytes number = keep_bytes(Bytes{}, 0);
      for (std::size_t g = first; g < first + count; ++g) {
        const Part part{n % kLanes};
        const Bytes digits = g < whole ? trits_of(g, Whole{}) : keep_bytes(trits_of(g, part), part.bits);
        number = plus(plus(plus(number, number), number), digits);
      }
      pack(wire, trits::bits_of(count), number);
      wire += 4 * trits::bits_of(count);
    }
  }

  // A block with NaN or Inf. Rare, so the code is simple.
  template <Feedback F>
  static __attribute__((noinline)) std::uint64_t encode_marked(const Source<T, F>& source, std::size_t n,
                                                               std::byte* wire) {
    alignas(64) std::byte v[integers::kMaxBlock * sizeof(T)];
    copy_block(source, n, v);
    integers::NonFiniteCounts found;
    for (std::size_t i = 0; i < n; ++i)
      if (const T e = element<T>(v, i); !is_finite(e)) found.add(e);
    const Head head{found.mark(), source.residual == nullptr};
    const T on_wire = head.on_wire();
    std::memcpy(wire, &on_wire, sizeof(T));
    const auto trits_of = [&](std::size_t g, auto width) {
      const L of_group = L::load(v + g * kGroupBytes, width);
      const std::uint32_t marked = ~of_group.finite().bits() & width.bits;
      source.keep(g, L::select(of_group.finite(), of_group, L::all(T{0})), width);
      std::byte bits[sizeof marked];
      std::memcpy(bits, &marked, sizeof marked);
      return less(unpack(bits, 1), 0xff);  // plus 1
    };
    put_trits(wire + sizeof(T), n, trits_of);
    return found.all();
  }

  template <bool kAdd>
  static Decoded decode_as(const DecodeArgs& a, bool stream) {
    const Settings settings = Q::settings(a.params);
    const auto* base = static_cast<const std::byte*>(a.base);
    auto* x = static_cast<std::byte*>(a.x);
    const std::byte* wire = a.wire;
    for (std::size_t begin = 0; begin < a.n; begin += settings.block) {
      const std::size_t n = std::min(settings.block, a.n - begin), offset = begin * sizeof(T);
      const std::byte* const from = kAdd ? base + offset : nullptr;
      T head;
      std::memcpy(&head, wire, sizeof head);
      bool ok;
      if (std::signbit(head)) [[unlikely]]
        ok = decode_marked<kAdd>(x + offset, from, n, head, wire + sizeof head);
      else
        ok = Quantizer{head}.valid(false, 1) && store_by(stream, x + offset, [&](auto store) {
               return decode_block<kAdd>(x + offset, from, n, head, wire + sizeof head, store);
             });
      if (!ok) return Decoded::malformed;
      wire += settings.template block_bytes<T>(n);
    }
    return Decoded::ok;
  }

  // Calls use(g, trits, width) for all groups. False if encode cannot have written these bytes.
  template <class Use>
  static MQ_INLINE bool for_each_trits(const std::byte* wire, std::size_t n, Use&& use) {
    const std::size_t whole = n / kLanes, groups = (n + kLanes - 1) / kLanes;
    bool ok = true;
    for (std::size_t first = 0; first < groups; first += trits::kGroups) {
      const std::size_t count = std::min(trits::kGroups, groups - first);
      Bytes number = unpack(wire, trits::bits_of(count));
      wire += 4 * trits::bits_of(count);
      ok &= !any_above(number, 0xff, static_cast<std::uint8_t>(trits::numbers_of(count) - 1));
      Bytes digits[trits::kGroups];
      for (std::size_t i = count; i-- > 0;) {
        const Bytes rest = third(number);
        digits[i] = minus(number, plus(plus(rest, rest), rest));
        number = rest;
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (first + i < whole) {
          use(first + i, digits[i], Whole{});
        } else {
          const Part part{n % kLanes};
          ok &= (~zero_bytes(digits[i]) & ~part.bits) == 0;
          use(first + i, digits[i], part);
        }
      }
    }
    return ok;
  }

  template <bool kAdd, class Store>
  static MQ_INLINE bool decode_block(std::byte* x, const std::byte* base, std::size_t n, T s,
                                     const std::byte* wire, Store store) {
    const L step = L::all(s);
    const bool zero = s == T{0};
    return for_each_trits(
        wire, n, [&](std::size_t g, Bytes digits, auto width) __attribute__((always_inline)) {
          L decoded = L::of_signed_bytes(less(digits, 1)) * step;
          if (zero) decoded = L::all(T{0});  // no -0
          const L sum = sum_of<kAdd>(base, g, decoded, width);
          if constexpr (std::is_same_v<decltype(width), Part>) {
            sum.store(x + g * kGroupBytes, width);
          } else {
            if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
            sum.store(x + g * kGroupBytes, store);
          }
        });
  }

  template <bool kAdd>
  static __attribute__((noinline)) bool decode_marked(std::byte* x, const std::byte* base, std::size_t n,
                                                      T on_wire, const std::byte* wire) {
    const Head head = Head::of_wire(on_wire);
    std::uint32_t marks = 0, zeros = 0;
    const bool ok = for_each_trits(wire, n, [&](std::size_t g, Bytes digits, auto width) {
      const std::uint32_t marked = zero_bytes(less(digits, 2));
      marks |= marked & width.bits;
      zeros |= zero_bytes(digits) & width.bits;
      const L decoded =
          L::select(L::mask_of(marked), L::all(head.marked_value()), L::all(head.other_value()));
      sum_of<kAdd>(base, g, decoded, width).store(x + g * kGroupBytes, width);
    });
    return ok && head.valid(on_wire) && marks != 0 && zeros == 0;
  }
};
