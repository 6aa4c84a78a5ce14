// The loops of zerorun (zeros/zerorun.hpp). Included once per instruction set, after entries-inl.hpp.
//
// Encode makes one pass over the groups of 32 elements of a block. It appends the non-zero elements of a
// group to the wire and keeps the group's bits aside. If a block would take more than its elements, encode
// notices this early and copies the block instead. With feedback carry, v replaces the residual first, and
// zeros replace v at the end.
#pragma once
#include "kernels/sparse/entries-inl.hpp"

template <class T, class Q>
struct ZeroRuns {
  using L = Lanes<T>;
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

  static Decoded decode(const DecodeArgs& a) noexcept { return decode_blocks<T>(a, kBlock, &decode_block); }

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

  // The parts of a block on the wire, and its end.
  struct Parts {
    const std::byte *top, *values, *bits, *end;  // top and bits: null if all elements are there
  };

  // Returns the size of the block in bytes, or 0 if it is malformed.
  static std::size_t decode_block(const std::byte* wire, std::size_t left, const std::byte* base,
                                  std::byte* x, std::size_t n, const Params&, bool stream) {
    Count count;
    if (left < sizeof count) return 0;
    std::memcpy(&count, wire, sizeof count);
    wire += sizeof count;
    left -= sizeof count;
    const std::size_t values = count * sizeof(T), head = count == n ? 0 : top_bytes(n);
    if (count > n || left < head + values) return 0;
    Parts parts{nullptr, wire + head, nullptr, wire + left};
    std::size_t groups = 0;
    if (count < n) {
      parts.top = wire;
      parts.bits = parts.values + values;
      groups = valid_groups(wire, parts.bits, left - head - values, count, n);
      if (groups > kGroups) return 0;
    }
    base ? put_block<true>(parts, base, x, n, stream) : put_block<false>(parts, base, x, n, stream);
    return sizeof count + head + values + groups * sizeof(std::uint32_t);
  }

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

  template <bool kAdd>
  static void put_block(const Parts& parts, const std::byte* base, std::byte* x, std::size_t n, bool stream) {
    store_by(stream, x, [&](auto store) { put_groups<kAdd>(parts, base, x, n, store); });
  }
  template <bool kAdd, class Store>
  static void put_groups(const Parts& parts, const std::byte* base, std::byte* x, std::size_t n,
                         Store store) {
    if (parts.top == nullptr) return put_all<kAdd>(parts.values, base, x, n, store);
    Parts next = parts;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) {
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      put<kAdd>(expanded(next, g), base, x, g, Whole{}, store);
    }
    if (rest) put<kAdd>(expanded(next, whole), base, x, whole, Part{rest}, Part{rest});
  }
  template <bool kAdd, class Store>
  static void put_all(const std::byte* values, const std::byte* base, std::byte* x, std::size_t n,
                      Store store) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) {
      ask_ahead<T>(values, g);
      if constexpr (std::is_same_v<Store, Whole>) ask_ahead<T>(x, g);
      put<kAdd>(L::load(values + g * kGroupBytes, Whole{}), base, x, g, Whole{}, store);
    }
    if (rest)
      put<kAdd>(L::load(values + whole * kGroupBytes, Part{rest}), base, x, whole, Part{rest}, Part{rest});
  }

  // Returns the elements of group g and advances to the next group.
  static MQ_INLINE L expanded(Parts& next, std::size_t g) {
    if ((std::to_integer<unsigned>(next.top[g / 8]) >> g % 8 & 1) == 0) return L::all(T{0});
    const std::uint32_t bits = load_bits(next.bits, Whole{});
    const L v = expand_lanes<T>(next.values, bits, next.end);
    next.bits += sizeof bits;
    next.values += static_cast<std::size_t>(std::popcount(bits)) * sizeof(T);
    return v;
  }

  template <bool kAdd, class W, class Store>
  static MQ_INLINE void put(L v, const std::byte* base, std::byte* x, std::size_t g, W width, Store store) {
    if constexpr (kAdd) {
      v = L::load(base + g * kGroupBytes, width) + v;
      v = L::select(v.ordered(), v, L::all(std::numeric_limits<T>::quiet_NaN()));
    }
    v.store(x + g * kGroupBytes, store);
  }
};
