// The loops of zerorun (zeros/zerorun.hpp). Included once per instruction set, after entries-inl.hpp.
//
// Encode makes one pass over the groups of 32 elements of a block. It appends the non-zero elements of a
// group to the wire and keeps the group's bits aside. If a block would take more than its elements, encode
// notices this early and copies the block instead. With feedback carry, v replaces the residual first, and
// zeros replace v at the end.
#pragma once
#include "kernels/host/family-inl.hpp"
#include "kernels/sparse/entries-inl.hpp"

template <class T, class Q>
struct ZeroRuns {
  using L = Lanes<T>;
  static constexpr bool kSums = true;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  static constexpr std::size_t kBlock = Q::kBlock, kGroups = kBlock / kLanes;
  using Count = std::uint32_t;

  // An upper bound.
  static std::size_t wire_bytes(std::size_t n, const Params&) {
    return (n + kBlock - 1) / kBlock * sizeof(Count) + n * sizeof(T);
  }

  static Encoded encode(const EncodeArgs& a) noexcept {
    const DefaultFloatingPoint environment;
    const auto* const x = static_cast<const std::byte*>(a.x);
    auto* const residual = static_cast<std::byte*>(a.residual);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), offset = begin * sizeof(T);
      // A deposit adds nothing, because all of v is sent.
      result.bytes +=
          a.feedback == Feedback::carry
              ? encode_block<true>(x + offset, residual + offset, n, a.wire + result.bytes, result)
              : encode_block<false>(x + offset, nullptr, n, a.wire + result.bytes, result);
    }
    return result;
  }

  static Decoded decode(const DecodeArgs& a) noexcept {
    const WireView wire{a.wire, a.wire_bytes};
    return decode_sum(a, {&wire, 1});
  }

  static Decoded decode_sum(const DecodeArgs& a, std::span<const WireView> wires) noexcept {
    const DefaultFloatingPoint environment;
    const bool stream = a.stream && a.base != a.x;  // in place, x is in the cache already
    const auto with = [&](auto count) {
      return a.base ? decode_wires<true>(a, wires.data(), count, stream)
                    : decode_wires<false>(a, wires.data(), count, stream);
    };
    const Decoded result = wires.size() == 1   ? with(std::integral_constant<std::size_t, 1>{})
                           : wires.size() == 2 ? with(std::integral_constant<std::size_t, 2>{})
                                               : with(wires.size());
    if (stream) _mm_sfence();
    return result;
  }

 private:
  // The parts of a block on the wire: count, one bit per group, elements, bits of the groups.
  static constexpr std::size_t groups_of(std::size_t n) { return (n + kLanes - 1) / kLanes; }
  static constexpr std::size_t top_bytes(std::size_t n) { return (groups_of(n) + 7) / 8; }

  struct Found {
    std::byte top[kGroups / 8] = {};
    std::uint32_t bits[kGroups];  // of groups that are not all zero
    std::size_t groups = 0, count = 0;
    std::uint64_t nonfinite = 0;
  };

  // Returns the number of bytes written.
  template <bool kCarry>
  static std::size_t encode_block(const std::byte* x, std::byte* residual, std::size_t n, std::byte* wire,
                                  Encoded& result) {
    Found found;
    const std::size_t all = n * sizeof(T), whole = n / kLanes, rest = n % kLanes, head = top_bytes(n);
    std::byte* const values = wire + sizeof(Count) + head;
    // More elements may be appended only while the total stays within the size of the vector.
    const auto fits = [&] {
      return head + (found.count + kLanes) * sizeof(T) + (found.groups + 1) * sizeof(std::uint32_t) <= all;
    };
    std::size_t g = full(x, n) ? n : 0;  // n: copied as a whole
    for (; g < whole && fits(); ++g) add_group<kCarry>(x, residual, g, values, found, Whole{});
    const bool part = g == whole && rest > 0 && fits();
    if (part) add_group<kCarry>(x, residual, whole, values, found, Part{rest});
    const bool sparse = g == whole && (rest == 0 || part);
    const auto count = static_cast<Count>(sparse ? found.count : n);
    std::memcpy(wire, &count, sizeof count);
    if (sparse) {
      std::memcpy(wire + sizeof count, found.top, head);
      std::memcpy(values + found.count * sizeof(T), found.bits, found.groups * sizeof(std::uint32_t));
    } else {
      copy_block<kCarry>(x, residual, n, g == n ? 0 : g + part, wire + sizeof count, found);
    }
    if (kCarry) std::memset(residual, 0, all);
    result.nonfinite += found.nonfinite;
    return sizeof count +
           (sparse ? head + found.count * sizeof(T) + found.groups * sizeof(std::uint32_t) : all);
  }

  // Reads a few groups throughout the block. If they contain no zero, the block has hardly enough zeros
  // elsewhere.
  static bool full(const std::byte* x, std::size_t n) {
    constexpr std::size_t kLooks = 8;
    if (n < kLooks * kLanes) return false;
    std::uint32_t bits = Whole::bits;
    for (std::size_t look = 0; look < kLooks; ++look)
      bits &= L::load(x + (n / kLanes - 1) * look / (kLooks - 1) * kGroupBytes, Whole{}).any_bit().bits();
    return bits == Whole::bits;
  }

  // Copies the elements of a block unchanged. The first `seen` groups were counted already; with carry they
  // are v. Each piece fits in L1: it is read first and then copied. Because of the 4-byte count, stores do
  // not start at cache lines; memcpy compensates for that.
  template <bool kCarry>
  static void copy_block(const std::byte* x, std::byte* residual, std::size_t n, std::size_t seen,
                         std::byte* to, Found& found) {
    constexpr std::size_t kPiece = 32;  // groups
    const std::byte* const v = kCarry ? residual : x;
    const std::size_t groups = groups_of(n);
    std::memcpy(to, v, std::min(seen * kLanes, n) * sizeof(T));
    for (std::size_t begin = seen; begin < groups; begin += kPiece) {
      const std::size_t end = std::min(begin + kPiece, groups), offset = begin * kGroupBytes;
      for (std::size_t g = begin; g < end; ++g) {
        ask_ahead<T>(x, g);
        if constexpr (kCarry) ask_ahead<T>(residual, g);
        if (const std::size_t rest = n - g * kLanes; rest < kLanes)
          pass_group<kCarry>(x, residual, g, found, Part{rest});
        else
          pass_group<kCarry>(x, residual, g, found, Whole{});
      }
      std::memcpy(to + offset, v + offset, std::min(end * kLanes, n) * sizeof(T) - offset);
    }
  }

  // Computes v of a group. With carry, v replaces the residual.
  template <bool kCarry, class W>
  static MQ_INLINE L pass_group(const std::byte* x, std::byte* residual, std::size_t g, Found& found,
                                W width) {
    L v = L::load(x + g * kGroupBytes, width);
    if constexpr (kCarry) {
      v = v + L::load(residual + g * kGroupBytes, width);
      v.store(residual + g * kGroupBytes, width);
    }
    found.nonfinite += static_cast<std::uint64_t>(std::popcount(~v.finite().bits() & width.bits));
    return v;
  }

  template <bool kCarry, class W>
  static MQ_INLINE void add_group(const std::byte* x, std::byte* residual, std::size_t g, std::byte* values,
                                  Found& found, W width) {
    ask_ahead<T>(x, g);
    if constexpr (kCarry) ask_ahead<T>(residual, g);
    const L v = pass_group<kCarry>(x, residual, g, found, width);
    const std::uint32_t bits = v.any_bit().bits() & width.bits;
    if (bits == 0) return;
    append_bytes(values + found.count * sizeof(T), bits, v);
    found.top[g / 8] |= static_cast<std::byte>(1u << g % 8);
    found.bits[found.groups++] = bits;
    found.count += static_cast<std::size_t>(std::popcount(bits));
  }

  template <bool kAdd, class Number>
  static Decoded decode_wires(const DecodeArgs& a, const WireView* wires, Number number, bool stream) {
    const auto* const base = static_cast<const std::byte*>(a.base);
    auto* const x = static_cast<std::byte*>(a.x);
    std::size_t at[kMostOf<Number>] = {};  // of the block on each wire
    for (std::size_t begin = 0; begin < a.n; begin += kBlock) {
      const std::size_t n = std::min(kBlock, a.n - begin), offset = begin * sizeof(T);
      Parts parts[kMostOf<Number>];
      for (std::size_t i = 0; i < number; ++i) {
        const std::size_t used = parts[i].open(wires[i].data() + at[i], wires[i].size() - at[i], n);
        if (used == 0) return Decoded::malformed;
        at[i] += used;
      }
      store_by(stream, x + offset, [&](auto store) {
        put_groups<kAdd>(parts, number, kAdd ? base + offset : nullptr, x + offset, n, store);
      });
    }
    for (std::size_t i = 0; i < number; ++i)
      if (at[i] != wires[i].size()) return Decoded::malformed;
    return Decoded::ok;
  }

  // The parts of a block on a wire, and the end of the wire. top and bits: null if all elements are there.
  struct Parts {
    const std::byte *top = nullptr, *values = nullptr, *bits = nullptr, *end = nullptr;

    // Returns the size of the block in bytes, or 0 if it is malformed.
    std::size_t open(const std::byte* wire, std::size_t left, std::size_t n) {
      Count count;
      if (left < sizeof count) return 0;
      std::memcpy(&count, wire, sizeof count);
      wire += sizeof count;
      left -= sizeof count;
      const std::size_t all = count * sizeof(T), head = count == n ? 0 : top_bytes(n);
      if (count > n || left < head + all) return 0;
      values = wire + head;
      end = wire + left;
      std::size_t groups = 0;
      if (count < n) {
        top = wire;
        bits = values + all;
        groups = valid_groups(wire, bits, left - head - all, count, n);
        if (groups > kGroups) return 0;
      }
      return sizeof count + head + all + groups * sizeof(std::uint32_t);
    }
    // Returns the elements of group g and advances to the next group.
    template <class W>
    MQ_INLINE L next(std::size_t g, W width) {
      if (top == nullptr) {
        ask_ahead<T>(values, g);
        return L::load(values + g * kGroupBytes, width);
      }
      if ((std::to_integer<unsigned>(top[g / 8]) >> g % 8 & 1) == 0) return L::all(T{0});
      const std::uint32_t of_group = load_bits(bits, Whole{});
      const L v = expand_lanes<T>(values, of_group, end);
      bits += sizeof of_group;
      values += static_cast<std::size_t>(std::popcount(of_group)) * sizeof(T);
      return v;
    }
  };

  static constexpr std::size_t kMalformed = kGroups + 1;
  // Returns the number of groups with elements. kMalformed if their bits are incomplete or do not mark
  // `count` elements.
  static std::size_t valid_groups(const std::byte* top, const std::byte* bits, std::size_t left, Count count,
                                  std::size_t n) {
    std::size_t groups = 0, elements = 0;
    for (std::size_t g = 0; g < 8 * top_bytes(n); ++g) {
      if ((std::to_integer<unsigned>(top[g / 8]) >> g % 8 & 1) == 0) continue;
      if (g >= groups_of(n) || left < (groups + 1) * sizeof(std::uint32_t)) return kMalformed;
      const std::uint32_t of_group = load_bits(bits + groups * sizeof(std::uint32_t), Whole{});
      const std::size_t lanes = std::min<std::size_t>(kLanes, n - g * kLanes);
      if (of_group == 0 || (lanes < kLanes && of_group >> lanes != 0)) return kMalformed;
      elements += static_cast<std::size_t>(std::popcount(of_group));
      ++groups;
    }
    return elements == count ? groups : kMalformed;
  }

  template <bool kAdd, class Number, class Store>
  static void put_groups(Parts* parts, Number number, const std::byte* base, std::byte* x, std::size_t n,
                         Store store) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    const auto sum = [&](std::size_t g, auto width) __attribute__((always_inline)) {
      L v = sum_of<kAdd>(base, g, parts[0].next(g, width), width);
      for (std::size_t i = 1; i < number; ++i) v = sum_of(v, parts[i].next(g, width));
      return v;
    };
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      sum(g, Whole{}).store(x + g * kGroupBytes, store);
    }
    if (rest) sum(whole, Part{rest}).store(x + whole * kGroupBytes, Part{rest});
  }
};
