// Selects the elements of a block that a sparse codec sends, on a device: the same elements as the host's
// select-inl.hpp, because the result depends on the values alone. A part of the block suggests a floor. The
// elements from there on are the *candidates*, and the search reads only them. If they are too few, it reads
// all elements, and lists the candidates again.
#pragma once

#include "kernels/sparse/radix.cuh"

namespace mq::kernels::cuda {

inline constexpr std::uint32_t kNotKept = ~0u;

// The value of candidate i. If this thread's candidates are kept, returns the next kept value.
template <class T, bool kNear>
MQ_DEVICE T candidate(const Block<T, kNear>& b, std::uint32_t i, std::uint32_t& kept) {
  if constexpr (!kNear)
    if (kept != kNotKept) return b.kept[kept++];
  return b.v(i);
}

// What a block sends: the elements of each side above its bound, and the first `ties` elements that equal it
// (of both sides together if joint), but only the first `limit` elements in all. Equal in all threads.
template <class T>
struct Picked {
  Key<T> bound[2];
  std::uint32_t ties[2];
  bool joint;
  std::uint32_t limit;
  std::uint32_t kept = kNotKept;  // this thread's first kept candidate; see Selector
  // Of one side. Not bound[above], because a variable index would put the array into slow memory.
  MQ_DEVICE Key<T> bound_of(bool above) const { return above ? bound[kAbove] : bound[kBelow]; }
  MQ_DEVICE std::uint32_t ties_of(bool above) const { return above ? ties[kAbove] : ties[kBelow]; }
  MQ_DEVICE Key<T> least(bool above) const { return bound_of(above) + (ties_of(above) == 0); }
  MQ_DEVICE Key<T> least() const { return smaller(least(false), least(true)); }
};
template <class T>
MQ_DEVICE Picked<T> above_bounds(Key<T> below, Key<T> above) {
  return {{below, above}, {0, 0}, false, ~0u};
}

// Moves bit i of the lowest 32 / kApart bits to bit kApart i.
template <std::uint32_t kApart>
MQ_DEVICE Word spread(Word bits) {
  static_assert(kApart == 2 || kApart == 4);
  if constexpr (kApart == 4) {
    bits = (bits | bits << 12) & 0x000f000fu;
    bits = (bits | bits << 6) & 0x03030303u;
    return (bits | bits << 3) & 0x11111111u;
  }
  bits = (bits | bits << 8) & 0x00ff00ffu;
  bits = (bits | bits << 4) & 0x0f0f0f0fu;
  bits = (bits | bits << 2) & 0x33333333u;
  return (bits | bits << 1) & 0x55555555u;
}

template <class T, bool kNear>
struct Selector {
  using B = Block<T, kNear>;
  const B& b;
  std::uint32_t* const bins;
  Key<T> listed = kMaxKey<T> + 2;  // b.above has elements from this key on, and non-finite ones
  std::uint32_t kept = kNotKept;   // index in b.kept of this thread's first candidate
  std::uint32_t kept_count = 0;    // of all threads
  explicit MQ_DEVICE Selector(const B& block)
      : b(block), bins(reinterpret_cast<std::uint32_t*>(block.pool)) {}

  // Reads the block. b.above becomes the elements from `least` on and the non-finite elements.
  MQ_DEVICE void read_from(Key<T> least) {
    b.read_packs(0, b.groups(), listing(least));
    order();
    keep();
  }
  // Ensures that elements from `least` on are listed.
  MQ_DEVICE void cover(Key<T> least) {
    if (least < listed) list_from(least);
  }
  // Reads the block. With `floor`, the first part of the block suggests a floor for the k greatest, from
  // which candidates are listed during reading. The result of a search does not depend on it.
  MQ_DEVICE void read(bool floor, std::uint32_t k) {
    const std::uint32_t groups = b.groups(), part = groups / 8;
    if (!floor || part == 0) return b.read_packs(0, groups, [](std::uint32_t, const Pack<T>&) {});
    RadixSearch<T> guess(kBoth, static_cast<std::uint32_t>(std::uint64_t{2} * k * part / groups) + 1);
    RadixSearch<T>::clear(bins);
    b.read_packs(0, part, [&](std::uint32_t, const Pack<T>& v) {
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack<T>; ++j) guess.add(bins, v.of[j]);
    });
    const Key<T> least = guess.take_bin(bins) ? greater<Key<T>>(guess.prefix << guess.shift, 1) : 1;
    b.each_pack(part, listing(least));
    b.read_packs(part, groups, listing(least));
    order();
  }

  // The k greatest of both sides together, ties by position. Call it after read().
  MQ_DEVICE Picked<T> exact(std::uint32_t k) {
    RadixSearch<T> search(kBoth, k);
    const bool some = k < b.n && first_digit(search);
    cover(some ? greater<Key<T>>(search.prefix << search.shift, 1) : 1);
    if (!some) return above_bounds<T>(0, 0);
    keep();
    narrow(search);
    return ends_of(search, search, true);
  }
  // The share(size) greatest of each side, where size is the number of its elements.
  template <class Share>
  MQ_DEVICE Picked<T> exact_sides(const Share& share) {
    RadixSearch<T> search[2]{{kBelow, 0}, {kAbove, 0}};
    Key<T> least = kMaxKey<T>;
    MQ_UNROLL(1)
    for (int side = kBelow; side <= kAbove; ++side) {
      RadixSearch<T>::clear(bins);
      everything()([&](T v) { search[side].add(bins, v); });
      barrier();
      const std::uint32_t size = RadixSearch<T>::total(bins);
      search[side].k = static_cast<std::uint32_t>(share(size));
      if (search[side].take_bin(bins)) least = smaller(least, search[side].prefix << search[side].shift);
    }
    cover(greater<Key<T>>(least, 1));
    keep();
    MQ_UNROLL(1)
    for (int side = kBelow; side <= kAbove; ++side)
      if (search[side].found > 0) narrow(search[side]);
    return ends_of(search[kBelow], search[kAbove], false);
  }

  // Finds the bound that the sample suggests for the k greatest. False if the sample has too few.
  MQ_DEVICE bool sampled(Side side, std::uint32_t k, Key<T>& bound) const {
    const auto sample = [this](const auto& visit) {
      const std::uint32_t m = b.n / static_cast<std::uint32_t>(Sample::kStride);
      for (std::uint32_t i = thread(); i < m; i += threads())
        visit(b.v(static_cast<std::uint32_t>(Sample::position(i))));
    };
    const auto rank = static_cast<std::uint32_t>(Sample::share(k));
    RadixSearch<T> search(side, rank);
    if (!search.all_digits(bins, sample)) return false;
    Key<T> next = search.prefix;
    if (search.k == search.found) {  // the next key is smaller
      Key<T> greatest = 0;
      sample([&](T v) {
        const Magnitude<T> m(v);
        if (m.of(side) && m.key < search.prefix) greatest = greater(greatest, m.key);
      });
      next = block_max(greatest);
    }
    bound = bisected<T>(search.prefix, next) - 1;
    return true;
  }

  // Finds the bound that a histogram of eight bins per octave suggests. Call it after read().
  MQ_DEVICE bool in_histogram(std::uint32_t k, Key<T>& bound) {
    constexpr std::uint32_t kBinShift = kMantissaBits<T> - 3;
    RadixSearch<T> search(kBoth, k);
    if (!first_digit(search)) return false;
    if (search.shift > kBinShift) {
      search.next = kBinShift;
      search.next_digit(bins, everything());
    }
    if (search.prefix == 0) return false;
    bound = bound_in_bin<T>(search.prefix << kBinShift, search.found, search.found - search.k);
    return true;
  }

  // Number of elements that exceed the bounds. Afterwards they are listed.
  MQ_DEVICE std::uint32_t count(Picked<T>& picked) {
    cover(picked.least());
    keep();
    picked.kept = kept;
    std::uint32_t n = 0;
    candidates()([&](T v) {
      const Magnitude<T> m(v);
      n += m.is && m.key > picked.bound_of(m.above);
    });
    return block_sum(n);
  }
  // The number of finite elements of each side that are not 0.
  MQ_DEVICE void sizes(std::uint32_t (&size)[2]) const {
    std::uint64_t n = 0;
    everything()([&](T v) {
      const Magnitude<T> m(v);
      n += m.is ? std::uint64_t{1} << (m.above ? 32 : 0) : 0;
    });
    n = block_sum(n);
    size[kBelow] = static_cast<std::uint32_t>(n);
    size[kAbove] = static_cast<std::uint32_t>(n >> 32);
  }
  MQ_DEVICE auto everything() const {
    return [this](const auto& visit) {
      b.each_pack(b.groups(), [&](std::uint32_t, const Pack<T>& v) {
        MQ_UNROLL(4)
        for (std::uint32_t j = 0; j < kPack<T>; ++j) visit(v.of[j]);
      });
    };
  }

 private:
  MQ_DEVICE void list_from(Key<T> least) {
    b.each_pack(b.groups(), listing(least));
    barrier();
    order();
  }
  // Finds the first digit: from the candidates if they are enough, else from all elements.
  MQ_DEVICE bool first_digit(RadixSearch<T>& search) {
    if (listed <= kMaxKey<T>) {
      keep();
      if (search.next_digit(bins, candidates())) return true;
    }
    return search.next_digit(bins, everything());
  }
  // Copies the values of the candidates to shared memory for all later passes, if there is room. The places
  // hold their indices first, so that each thread then reads equally many elements.
  MQ_DEVICE void keep() {
    if (kNear || b.kept_room == 0 || kept != kNotKept) return;
    const Owned own(b.words);
    std::uint32_t count = 0, all;
    for (std::uint32_t w = own.begin; w < own.end; ++w) count += count_ones(b.above[w]);
    const std::uint32_t before = block_before(count, all);
    if (all > b.kept_room) return;
    std::uint32_t next = before;
    b.each_owned(b.above, [&](std::uint32_t i) { b.kept[next++] = bits_as<T>(Key<T>{i}); });
    barrier();
    in_batches<4>(
        thread(), all, threads(),
        [&](std::uint32_t r) { return b.v(static_cast<std::uint32_t>(key_of(b.kept[r]))); },
        [&](std::uint32_t r, T v) { b.kept[r] = v; });
    barrier();
    kept = before;
    kept_count = all;
  }
  // In any order.
  MQ_DEVICE auto candidates() const {
    return [this](const auto& visit) {
      if (kept == kNotKept) return b.each_owned(b.above, [&](std::uint32_t i) { visit(b.v(i)); });
      for (std::uint32_t r = thread(); r < kept_count; r += threads()) visit(b.kept[r]);
    };
  }
  // Finds the next digits, until all elements with the same upper bits are taken or none is left.
  MQ_DEVICE void narrow(RadixSearch<T>& search) const {
    MQ_UNROLL(1)
    while (search.shift > 0 && search.k != search.found) search.next_digit(bins, candidates());
  }
  // Lists elements while they are visited. Bit l of word j of a group becomes element kPack l + j of it;
  // order() follows.
  MQ_DEVICE auto listing(Key<T> least) {
    listed = least;
    kept = kNotKept;
    return [this, least](std::uint32_t g, const Pack<T>& v) {
      Pack<Word, kPack<T>> bits;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack<T>; ++j)
        bits.of[j] = ballot((key_of(v.of[j]) & ~kSignBit<T>) >= least);
      if (lane() == 0) store_pack(words_from(kPack<T> * g), bits);
    };
  }
  MQ_DEVICE std::byte* words_from(std::uint32_t w) const { return reinterpret_cast<std::byte*>(b.above + w); }
  // Puts the bits of b.above in the order of the elements.
  MQ_DEVICE void order() const {
    constexpr std::uint32_t kBits = 32 / kPack<T>;  // of each word of the group
    for (std::uint32_t first = 32 * warp(); first < b.words; first += threads()) {
      const std::uint32_t w = first + lane(), in_group = w % kPack<T>;
      Word ordered = 0;
      if (w < b.words) {
        const auto bits = load_pack<Word, kPack<T>>(words_from(w - in_group));
        MQ_UNROLL(4)
        for (std::uint32_t j = 0; j < kPack<T>; ++j)
          ordered |= spread<kPack<T>>(bits.of[j] >> (kBits * in_group) & lanes_below(kBits)) << j;
      }
      warp_sync();
      if (w < b.words) b.above[w] = ordered & existing(w, b.n);
    }
    barrier();
  }
  MQ_DEVICE Picked<T> ends_of(const RadixSearch<T>& below, const RadixSearch<T>& above, bool joint) const {
    Picked<T> picked{{kMaxKey<T>, kMaxKey<T>}, {0, 0}, joint, ~0u, kept};
    for (const Side side : {kBelow, kAbove}) {
      const RadixSearch<T>& search = side == kAbove ? above : below;
      if (search.found == 0) continue;  // none of this side
      const bool all_ties = search.k == search.found;
      picked.bound[side] = greater<Key<T>>(search.prefix << search.shift, 1) - all_ties;
      picked.ties[side] = all_ties ? 0 : search.k;
    }
    return picked;
  }
};

// How many elements are sent, and how many are not finite.
struct Taken {
  std::uint32_t entries, nonfinite;
};

// Turns the candidates in b.above into the entries of both signs (b.above, b.below) and the non-finite
// elements (b.marks).
template <class T, bool kNear>
MQ_DEVICE Taken take(const Block<T, kNear>& b, const Picked<T>& picked) {
  std::uint32_t rank_below = 0, rank_above = 0;  // of ties; if joint, rank_below is of both sides
  const bool some_ties = picked.ties[kBelow] + picked.ties[kAbove] > 0;
  if (some_ties) {
    std::uint64_t ties = 0, all;
    std::uint32_t next = picked.kept;
    b.each_owned(b.above, [&](std::uint32_t i) {
      const Magnitude<T> m(candidate(b, i, next));
      if (m.is && m.key == picked.bound_of(m.above)) ties += std::uint64_t{1} << (m.above ? 32 : 0);
    });
    const std::uint64_t before = block_before(ties, all);
    rank_below = static_cast<std::uint32_t>(before);
    rank_above = static_cast<std::uint32_t>(before >> 32);
    if (picked.joint) rank_below += rank_above;
  }
  const Owned own(b.words);
  std::uint32_t count = 0, nonfinite = 0, next = picked.kept;
  for (std::uint32_t w = own.begin; w < own.end; ++w) {
    Word taken = 0, above = 0, marks = 0;
    for (Word rest = b.above[w]; rest != 0; rest &= rest - 1) {
      const std::uint32_t l = count_trailing_zeros(rest);
      const Magnitude<T> m(candidate(b, 32 * w + l, next));
      const Word bit = Word{1} << l;
      const Key<T> bound = picked.bound_of(m.above);
      if (m.is && m.key > bound) taken |= bit;
      if (some_ties && m.is && m.key == bound && picked.ties_of(m.above) > 0) {
        const bool of_above = m.above && !picked.joint;
        if ((of_above ? rank_above : rank_below) < picked.ties_of(m.above)) taken |= bit;
        rank_above += of_above;
        rank_below += !of_above;
      }
      if (m.above) above |= bit;
      if (!finite_key<T>(m.key)) marks |= bit;
    }
    b.above[w] = taken & above;
    b.below[w] = taken & ~above;
    b.marks[w] = marks;
    count += count_ones(taken);
    nonfinite += count_ones(marks);
  }
  if (picked.limit < b.n) {
    std::uint32_t all, before = block_before(count, all);
    count = 0;
    for (std::uint32_t w = own.begin; w < own.end; ++w) {
      Word kept = b.above[w] | b.below[w];
      while (kept != 0 && before + count_ones(kept) > picked.limit)
        kept ^= Word{1} << (31 - count_leading_zeros(kept));
      before += count_ones(kept);
      count += count_ones(kept);
      b.above[w] &= kept;
      b.below[w] &= kept;
    }
  }
  const bool all_finite = !barrier_or(nonfinite != 0);  // usual, and cheaper than a sum
  return {block_sum(count), all_finite ? 0 : block_sum(nonfinite)};
}

}  // namespace mq::kernels::cuda
