// The entries of a block: the elements that a sparse codec (ternary, topk) sends. This file makes them from
// the list of candidates, subtracts them from the residual, and writes them to a vector; it also has the loop
// over blocks. The codecs share it; only their wires differ. Included once per instruction set, after
// select-inl.hpp.
#pragma once
#include "kernels/sparse/select-inl.hpp"

// position * 2 + sign, ascending. sign: 1 = above 0, used if the wire has separate signs.
struct Entries {
  const std::uint32_t* entry;
  std::size_t count;
  std::size_t skips;  // bytes of put_gaps without an entry
};

// Turns the list of candidates into the list of entries, in place: the selected elements and all non-finite
// elements. Returns the number of non-finite elements.
template <class T>
struct Keep {
  using L = Lanes<T>;
  static std::size_t selected(Candidates<T>& block, const Selection<T>& selection, Entries& entries) {
    const bool tied = selection.side[kBelow].ties + selection.side[kAbove].ties > 0;
    std::size_t nonfinite;
    if (tied)
      nonfinite = each<true>(block, selection, entries.count);
    else if constexpr (kCompresses<T>)
      nonfinite = above(block, selection, entries.count);
    else
      nonfinite = each<false>(block, selection, entries.count);
    entries.entry = block.at;
    entries.count = std::min(entries.count, selection.limit);
    return nonfinite;
  }

  // The same for a block whose candidates are not listed. False if there is no room for the entries either.
  static bool unlisted(Candidates<T>& block, Selection<T> selection, Entries& entries,
                       std::size_t& nonfinite) {
    const std::size_t whole = block.n / kLanes, rest = block.n % kLanes;
    std::size_t count = 0;
    nonfinite = 0;
    for (std::size_t g = 0; g < whole && count <= block.room(block.n); ++g)
      add_group(block, g, selection, count, nonfinite, Whole{});
    if (rest && count <= block.room(block.n))
      add_group(block, whole, selection, count, nonfinite, Part{rest});
    if (count > block.room(block.n)) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t sign = key_of(block.value_of(i, block.at[i])) < kSignBit<T>;
      block.at[i] = block.at[i] << 1 | sign;
    }
    entries.entry = block.at;
    entries.count = count;
    return true;
  }

 private:
  static std::size_t above(Candidates<T>& block, const Selection<T>& selection, std::size_t& count) {
    const L up = L::all(magnitude_of<T>(key_of(selection.side[kAbove].bound) + 1));
    const L down = L::all(-magnitude_of<T>(key_of(selection.side[kBelow].bound) + 1));
    const std::size_t whole = block.found / kLanes, rest = block.found % kLanes;
    std::size_t nonfinite = 0;
    count = 0;
    for (std::size_t g = 0; g < whole; ++g) nonfinite += keep_group(block, g, up, down, count, Whole{});
    if (rest) nonfinite += keep_group(block, whole, up, down, count, Part{rest});
    return nonfinite;
  }
  template <class W>
  static MQ_INLINE std::size_t keep_group(Candidates<T>& block, std::size_t g, const L& least_above,
                                          const L& most_below, std::size_t& count, W width) {
    const L v = L::load(block.values() + g * kLanes * sizeof(T), width);
    const std::uint32_t up = v.at_least(least_above).bits(), nonfinite = ~v.finite().bits() & width.bits;
    const std::uint32_t take = ((up | most_below.at_least(v).bits()) & width.bits) | nonfinite;
    append_entries(block.at + count, take, up, block.at + g * kLanes);
    append_lanes(block.value + count, take, v);
    count += static_cast<std::size_t>(std::popcount(take));
    return static_cast<std::size_t>(std::popcount(nonfinite));
  }

  template <bool kTied>
  static std::size_t each(Candidates<T>& block, const Selection<T>& selection, std::size_t& count) {
    const Key<T> bound[2] = {key_of(selection.side[kBelow].bound), key_of(selection.side[kAbove].bound)};
    std::size_t ties[2] = {selection.side[kBelow].ties, selection.side[kAbove].ties}, nonfinite = 0;
    count = 0;
    for (std::size_t i = 0; i < block.found; ++i) {
      const std::uint32_t position = block.at[i];
      const T value = block.value_of(i, position);
      const Key<T> bits = key_of(value), key = bits & ~kSignBit<T>;
      const std::uint32_t sign = bits < kSignBit<T>;
      bool take = key > bound[sign];
      if (kTied && key == bound[sign] && ties[sign] > 0) {
        take = true;
        --ties[sign];
      }
      // Always written, and kept only if the count advances. A branch here would be mispredicted.
      block.at[count] = position << 1 | sign;
      if constexpr (kCompresses<T>) block.value[count] = value;
      count += take;
      nonfinite += key > kMaxKey<T>;
    }
    return nonfinite;
  }

  template <class W>
  static MQ_INLINE void add_group(Candidates<T>& block, std::size_t g, Selection<T>& selection,
                                  std::size_t& count, std::size_t& nonfinite, W width) {
    const L v = L::load(block.v + g * kLanes * sizeof(T), width);
    const GroupBits taken = take_group(v, selection, width);
    const std::uint32_t bits = taken.above | taken.below | taken.nonfinite;
    append_positions(block.at + count, bits, static_cast<std::uint32_t>(g * kLanes));
    if constexpr (kCompresses<T>) append_lanes(block.value + count, bits, v);
    count += static_cast<std::size_t>(std::popcount(bits));
    nonfinite += static_cast<std::size_t>(std::popcount(taken.nonfinite));
  }
};

// residual += x - decoded for all elements: adds loss_of(entry, v) for entries, and v for the others.
template <class T, class Loss>
struct Deposit {
  using L = Lanes<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  static void all(const std::byte* x, std::size_t n, std::byte* residual, const Entries& entries,
                  const Loss& loss_of) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    std::size_t done = 0;
    for (std::size_t g = 0; g < whole; ++g) done = group(x, residual, g, entries, done, loss_of, Whole{});
    if (rest) group(x, residual, whole, entries, done, loss_of, Part{rest});
  }

 private:
  template <class W>
  static MQ_INLINE std::size_t group(const std::byte* x, std::byte* residual, std::size_t g,
                                     const Entries& entries, std::size_t i, const Loss& loss_of, W width) {
    std::byte loss[kGroupBytes];
    L::load(x + g * kGroupBytes, width).store(loss, Whole{});
    for (; i < entries.count && entries.entry[i] >> 1 < (g + 1) * kLanes; ++i) {
      const std::uint32_t lane = (entries.entry[i] >> 1) % kLanes;
      set_element<T>(loss, lane, loss_of(entries.entry[i], element<T>(loss, lane)));
    }
    deposited(L::load(residual + g * kGroupBytes, width), L::load(loss, Whole{}))
        .store(residual + g * kGroupBytes, width);
    return i;
  }
};

// Sinks for the entries of a payload. Each takes the positions, ascending, and the values.
template <class T>
struct SetEntry {
  std::byte* x;
  MQ_INLINE void operator()(std::size_t i, T value) const { set_element<T>(x, i, value); }
};
template <class T>
struct AddEntry {
  std::byte* x;
  MQ_INLINE void operator()(std::size_t i, T value) const {
    const T sum = element<T>(x, i) + value;
    set_element<T>(x, i, sum == sum ? sum : std::numeric_limits<T>::quiet_NaN());
  }
};
// Writes entries and zeros past the caches, in pieces that stay in L1 until they are complete.
template <class T>
struct StreamEntry {
  using L = Lanes<T>;
  static constexpr std::size_t kPiece = 1024, kGroupBytes = kLanes * sizeof(T);
  std::byte* const x;
  std::size_t begin = 0;  // of the piece
  std::byte piece[kPiece * sizeof(T)] = {};

  explicit MQ_INLINE StreamEntry(std::byte* to) : x(to) {}
  MQ_INLINE void operator()(std::size_t i, T value) {
    while (i - begin >= kPiece) write();
    set_element<T>(piece, i - begin, value);
  }
  void write() {
    for (std::size_t g = 0; g < kPiece / kLanes; ++g) {
      L::load(piece + g * kGroupBytes, Whole{}).store(x + begin * sizeof(T) + g * kGroupBytes, Streamed{});
      L::all(T{0}).store(piece + g * kGroupBytes, Whole{});
    }
    begin += kPiece;
  }
  MQ_INLINE void finish(std::size_t n) {
    while (n - begin >= kPiece) write();
    std::memcpy(x + begin * sizeof(T), piece, (n - begin) * sizeof(T));
  }
};

// Decodes a block whose entries `walk(sink)` visits one by one. False if walk returns false.
template <class T, class Walk>
bool decode_entries(const Walk& walk, const std::byte* base, std::byte* x, std::size_t n, bool stream) {
  if (base != nullptr) {
    if (base != x) std::memcpy(x, base, n * sizeof(T));
    AddEntry<T> sink{x};
    return walk(sink);
  }
  return store_by(stream, x, [&](auto store) {
    if constexpr (std::is_same_v<decltype(store), Streamed>) {
      StreamEntry<T> sink(x);
      const bool valid = walk(sink);
      if (valid) sink.finish(n);
      return valid;
    } else {
      std::memset(x, 0, n * sizeof(T));
      SetEntry<T> sink{x};
      return walk(sink);
    }
  });
}

// Decodes wires of blocks whose headers contain their lengths, and adds them block by block: while a block is
// in the cache, it takes the entries of all wires. decode_block(wire, left, base, x, n, params, stream)
// returns the number of bytes it read, or 0 if they are malformed.
template <class T, class Block>
Decoded decode_blocks(const DecodeArgs& a, std::span<const WireView> wires, std::size_t block,
                      Block decode_block) {
  const DefaultFloatingPoint environment;
  const auto* const base = static_cast<const std::byte*>(a.base);
  auto* const x = static_cast<std::byte*>(a.x);
  const bool stream = a.stream && base != x && wires.size() == 1;  // in place, x is in the cache already
  std::size_t at[kMostSummed] = {};                                // of the block on each wire
  bool valid = true;
  for (std::size_t begin = 0; begin < a.n && valid; begin += block) {
    const std::size_t n = std::min(block, a.n - begin), offset = begin * sizeof(T);
    const std::byte* from = base ? base + offset : nullptr;
    for (std::size_t i = 0; i < wires.size() && valid; ++i) {
      const std::size_t used = decode_block(wires[i].data() + at[i], wires[i].size() - at[i], from,
                                            x + offset, n, a.params, stream);
      valid = used != 0;
      at[i] += used;
      from = x + offset;
    }
  }
  if (stream) _mm_sfence();
  for (std::size_t i = 0; i < wires.size(); ++i) valid &= at[i] == wires[i].size();
  return valid ? Decoded::ok : Decoded::malformed;
}
template <class T, class Block>
Decoded decode_blocks(const DecodeArgs& a, std::size_t block, Block decode_block) {
  const WireView wire{a.wire, a.wire_bytes};
  return decode_blocks<T>(a, {&wire, 1}, block, decode_block);
}

// The loops of a sparse codec Q over the blocks of a wire. Block has block_bound(n, params), encode_block and
// decode_block. Encode handles a block of at most 65536 elements, which stays in L2, in three steps. First,
// one pass replaces the residual by v = x + residual and lists the candidates. Then the selection among the
// candidates is made. Then the wire is written.
template <class T, class Q, class Block>
struct SparseBlocks {
  // An upper bound.
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    const std::size_t block = Q::block(params), rest = n % block;
    return n / block * Block::block_bound(block, params) + (rest ? Block::block_bound(rest, params) : 0);
  }

  static Encoded encode(const EncodeArgs& a) noexcept {
    const DefaultFloatingPoint environment;
    switch (a.feedback) {
      case Feedback::none: return encode_blocks<Feedback::none>(a);
      case Feedback::carry: return encode_blocks<Feedback::carry>(a);
      case Feedback::deposit: return encode_blocks<Feedback::deposit>(a);
    }
    return {};
  }

  static Decoded decode(const DecodeArgs& a) noexcept {
    return decode_blocks<T>(a, Q::block(a.params), &Block::decode_block);
  }
  static constexpr bool kSums = true;
  static Decoded decode_sum(const DecodeArgs& a, std::span<const WireView> wires) noexcept {
    return decode_blocks<T>(a, wires, Q::block(a.params), &Block::decode_block);
  }

 private:
  template <Feedback F>
  static Encoded encode_blocks(const EncodeArgs& a) {
    const auto* x = static_cast<const std::byte*>(a.x);
    auto* residual = static_cast<std::byte*>(a.residual);
    const std::size_t block = Q::block(a.params);
    Candidates<T> candidates;
    Key<T> floor = Q::template first_floor<T>(a.params);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += block) {
      const std::size_t n = std::min(block, a.n - begin), offset = begin * sizeof(T);
      std::byte* const kept = residual ? residual + offset : nullptr;
      candidates.template collect<F>(x + offset, kept, n, floor);
      const Selection<T> selection = Q::template select<T>(candidates, a.params);
      candidates.cover(selection);
      result.bytes += Block::template encode_block<F>(candidates, selection, kept, a.params,
                                                      a.wire + result.bytes, result.nonfinite);
      floor = Q::template next_floor<T>(a.params, selection);
    }
    return result;
  }
};
