// Encodes threshold and adaptive on a device: one thread block per block of the codec, one launch for all.
// The wire and the residual equal the host's (host-inl.hpp).
//
// x and the residual are read once. With carry, v replaces the residual, and the residual of sent elements is
// corrected. For floats with feedback this is 12 bytes of memory traffic per element, plus the wire.
#pragma once

#include "kernels/sparse/select.cuh"

namespace mq::kernels::cuda {

struct ThresholdPick {
  static constexpr bool kMeans = false;
  template <class T, bool kNear>
  static MQ_DEVICE Picked<T> pick(const Block<T, kNear>& b, const SparseEncodeArgs& a) {
    const Key<T> bound = key_of(static_cast<T>(a.value)) - 1;  // selects from tau on
    Selector<T, kNear> selector(b);
    selector.read_from(bound + 1);
    Picked<T> picked = above_bounds<T>(bound, bound);
    picked.kept = selector.kept;
    return picked;
  }
};

// The exact search of both signs together.
struct AdaptivePick {
  static constexpr bool kMeans = true;
  template <class T, bool kNear>
  static MQ_DEVICE Picked<T> pick(const Block<T, kNear>& b, const SparseEncodeArgs& a) {
    Selector<T, kNear> selector(b);
    const std::uint32_t k = a.k[b.n < a.block];
    selector.read(true, k);
    return selector.exact(k);
  }
};

// The other searches of adaptive. They have a kernel of their own, so that the usual one takes fewer
// registers.
struct AdaptiveRarePick {
  static constexpr bool kMeans = true;
  template <class T, bool kNear>
  static MQ_DEVICE Picked<T> pick(const Block<T, kNear>& b, const SparseEncodeArgs& a) {
    Selector<T, kNear> selector(b);
    const std::uint32_t k = a.k[b.n < a.block];
    const auto search = static_cast<Search>(a.search);
    const bool separate = a.separate != 0;
    selector.read(false, k);
    if (search == Search::dryden2016) return dryden(selector, a.value, k);
    if (search == Search::approx) {
      Picked<T> picked = sampled(selector, k, a.value, separate);
      if (near_enough(selector.count(picked), k)) return picked;
    }
    if (separate)
      return selector.exact_sides([&](std::uint32_t size) { return adaptive_share(size, a.value); });
    return selector.exact(k);
  }

 private:
  template <class T, bool kNear>
  static MQ_DEVICE Picked<T> sampled(const Selector<T, kNear>& selector, std::uint32_t k, double pi,
                                     bool separate) {
    Key<T> bound[2] = {0, 0};
    std::uint32_t size[2] = {k, k};
    if (separate) {
      selector.sizes(size);
      for (std::uint32_t& s : size) s = static_cast<std::uint32_t>(adaptive_share(s, pi));
    }
    MQ_UNROLL(1)
    for (int side = kBelow; side <= (separate ? kAbove : kBelow); ++side)
      if (!selector.sampled(separate ? static_cast<Side>(side) : kBoth, size[side], bound[side]))
        bound[side] = 0;
    return above_bounds<T>(bound[kBelow], bound[separate ? kAbove : kBelow]);
  }

  template <class T>
  struct Samples {
    Key<T> key[DrydenSample::kCount], least[2];
    std::uint32_t side[DrydenSample::kCount], count[2];  // side 2: none
  };
  template <class T, bool kNear>
  static MQ_DEVICE Picked<T> dryden(Selector<T, kNear>& selector, double pi, std::uint32_t k) {
    auto& s = *reinterpret_cast<Samples<T>*>(selector.bins);
    if (thread() < 2) s.count[thread()] = 0;
    barrier();
    for (std::uint32_t i = thread(); i < DrydenSample::kCount; i += threads()) {
      const Magnitude<T> m(selector.b.v(static_cast<std::uint32_t>(DrydenSample::position(i, selector.b.n))));
      s.key[i] = m.key;
      s.side[i] = m.is ? m.above : 2;
      if (m.is) atomic_add(&s.count[m.above], 1);
    }
    barrier();
    for (std::uint32_t i = thread(); i < DrydenSample::kCount; i += threads()) {
      const std::uint32_t side = s.side[i];
      if (side == 2) continue;
      std::uint32_t greater_ones = 0, equal = 0;
      for (std::uint32_t j = 0; j < DrydenSample::kCount; ++j) {
        greater_ones += s.side[j] == side && s.key[j] > s.key[i];
        equal += s.side[j] == side && s.key[j] == s.key[i];
      }
      const std::size_t rank = adaptive_share(s.count[side], pi);
      if (greater_ones < rank && rank <= greater_ones + equal) s.least[side] = s.key[i];
    }
    barrier();
    Picked<T> picked = above_bounds<T>(bound_of(s, kBelow), bound_of(s, kAbove));
    picked.limit = DrydenSample::kExcess * k;
    barrier();
    selector.cover(picked.least());
    return picked;
  }
  // A side without samples takes the bound of the other side.
  template <class T>
  static MQ_DEVICE Key<T> bound_of(const Samples<T>& s, int side) {
    const int of = s.count[side] > 0 ? side : 1 - side;
    return s.count[of] > 0 ? s.least[of] - 1 : 0;
  }
};

// Counts of the sixteen classes (part i % 8 of each side), with 16 bits each.
struct ClassCounts {
  std::uint64_t four[4];  // parts 0-3 and 4-7 below, then above
  MQ_DEVICE ClassCounts() : four{0, 0, 0, 0} {}
  MQ_DEVICE void add(Word below, Word above) {
    MQ_UNROLL(4)
    for (std::uint32_t i = 0; i < 4; ++i) MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < 4; ++j)
      four[i] += static_cast<std::uint64_t>(
                     count_ones((i < 2 ? below : above) & (Word{0x01010101} << (4 * (i % 2) + j))))
                 << (16 * j);
  }
};

// The totals of both sides, like the host's SideSums: element i of a side is added to its part i % 8, in
// order, in double. The values of each of the sixteen parts are stored one after the other, and one thread
// sums each part. If there is not enough room, this is done for some words at a time.
template <class T, bool kNear>
struct SideTotals {
  struct State {
    double part[2 * kSideParts], total[2];
    std::uint32_t begin[2 * kSideParts + 1];
  };
  const Block<T, kNear>& b;
  std::uint32_t room;  // values in the pool
  MQ_DEVICE SideTotals(const Block<T, kNear>& block, std::uint32_t pool_bytes)
      : b(block), room(pool_bytes / static_cast<std::uint32_t>(sizeof(T))) {}

  // Returns the number of entries below.
  MQ_DEVICE std::uint32_t sum(std::uint32_t entries, double scale, double (&total)[2]) const {
    auto& s = shared<State>();
    if (thread() < 2 * kSideParts) s.part[thread()] = 0;
    const std::uint32_t at_once = entries <= room ? b.words : room / 32;
    std::uint32_t below = 0;
    for (std::uint32_t w = 0; w < b.words; w += at_once)
      below += add_words(s, w, smaller(w + at_once, b.words), scale);
    if (thread() < 2) {
      double part[kSideParts];
      for (int i = 0; i < kSideParts; ++i) part[i] = s.part[thread() * kSideParts + i];
      s.total[thread()] = side_total(part);
    }
    barrier();
    total[kBelow] = s.total[kBelow];
    total[kAbove] = s.total[kAbove];
    barrier();
    return below;
  }

 private:
  // Returns how many entries of these words are below.
  MQ_DEVICE std::uint32_t add_words(State& s, std::uint32_t begin, std::uint32_t end, double scale) const {
    Owned own(b.words);
    own.begin = greater(own.begin, begin);
    own.end = smaller(own.end, end);
    ClassCounts counts;
    for (std::uint32_t w = own.begin; w < own.end; ++w) counts.add(b.below[w], b.above[w]);
    std::uint64_t(&before)[4] = counts.four, all[4];
    block_before(before, all);
    std::uint32_t first = 0, below = 0;  // entries of the earlier classes, and of those below
    MQ_UNROLL(4)
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (i == 2) below = first;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < 4; ++j) {
        const auto in_class = static_cast<std::uint32_t>(all[i] >> (16 * j) & 0xffff);
        if (thread() == 0) s.begin[4 * i + j] = first;
        first += in_class;
      }
    }
    if (thread() == 0) s.begin[2 * kSideParts] = first;
    barrier();
    auto* const values = reinterpret_cast<T*>(b.pool);
    for (std::uint32_t w = own.begin; w < own.end; ++w)
      for (Word rest = b.below[w] | b.above[w]; rest != 0; rest &= rest - 1) {
        const std::uint32_t l = count_trailing_zeros(rest), side = b.above[w] >> l & 1;
        const std::uint32_t of = side * kSideParts + l % kSideParts, shift = 16 * (of % 4);
        std::uint32_t rank = 0;
        MQ_UNROLL(4)
        for (std::uint32_t i = 0; i < 4; ++i)
          if (of / 4 == i) {
            rank = static_cast<std::uint32_t>(before[i] >> shift & 0xffff);
            before[i] += std::uint64_t{1} << shift;
          }
        values[s.begin[of] + rank] = b.v(32 * w + l);
      }
    barrier();
    if (thread() < 2 * kSideParts) {
      double sum = s.part[thread()];
      for (std::uint32_t i = s.begin[thread()]; i < s.begin[thread() + 1]; ++i)
        sum += static_cast<double>(values[i]) * scale;
      s.part[thread()] = sum;
    }
    barrier();
    return below;
  }
};

template <class T, bool kNear>
MQ_DEVICE TernaryHeader<T> mean_header(const Block<T, kNear>& b, const SparseEncodeArgs& a,
                                       std::uint32_t entries) {
  const SideTotals<T, kNear> totals(b, a.pool_bytes);
  double total[2], scale = 1;
  const std::uint32_t below = totals.sum(entries, scale, total);
  if (!is_finite(total[kBelow]) || !is_finite(total[kAbove])) totals.sum(entries, scale = kHugeScale, total);
  return {side_mean<T>(total[kBelow], below, scale), side_mean<T>(total[kAbove], entries - below, scale)};
}

// The residual after the block was coded.
template <class T, bool kNear>
MQ_DEVICE void correct(const Block<T, kNear>& b, T below, T above) {
  b.correct([&](std::uint32_t w) { return b.above[w] | b.below[w] | b.marks[w]; },
            [&](std::uint32_t i, T v) {
              const std::uint32_t w = i / 32;
              const Word bit = Word{1} << i % 32;
              const bool is_above = (b.above[w] & bit) != 0, is_below = (b.below[w] & bit) != 0;
              const bool marked = (b.marks[w] & bit) != 0;
              return marked ? T{0} : is_above ? v - above : is_below ? v - below : v;
            });
}

// Writes the payload to shared memory, after the header.
template <class T, bool kNear>
MQ_DEVICE void put_sparse(const Block<T, kNear>& b, TernaryFormat format, std::uint32_t count,
                          const EntryOffsets& offsets, std::byte* out) {
  const auto bits_of = [&](std::uint32_t w) { return b.above[w] | b.below[w]; };
  const auto sign_of = [&](std::uint32_t i) { return b.above[i / 32] >> (i % 32) & 1; };
  if (format == TernaryFormat::gap)
    return put_gaps<true>(
        b.words, bits_of, [&](std::uint32_t w) { return b.above[w]; }, offsets, out);
  auto* const words = reinterpret_cast<std::uint32_t*>(out);
  auto* const halves = reinterpret_cast<std::uint16_t*>(out);
  if (format == TernaryFormat::u16) {
    for (std::uint32_t i = count + thread(); i < count + (count + 15) / 16 + 2; i += threads()) halves[i] = 0;
    barrier();
  }
  std::uint32_t rank = offsets.rank;
  const Owned own(b.words);
  for (std::uint32_t w = own.begin; w < own.end; ++w)
    for (Word rest = bits_of(w); rest != 0; rest &= rest - 1, ++rank) {
      const std::uint32_t i = 32 * w + count_trailing_zeros(rest);
      if (format == TernaryFormat::u16)
        halves[rank] = static_cast<std::uint16_t>(i);
      else
        words[rank] = i << 1 | sign_of(i);
    }
  if (format != TernaryFormat::u16) return;
  barrier();
  rank = offsets.rank;
  for (std::uint32_t w = own.begin; w < own.end; ++w)
    for (Word rest = bits_of(w); rest != 0; rest &= rest - 1, ++rank) {
      const std::uint32_t bit = 16 * count + rank;
      if (sign_of(32 * w + count_trailing_zeros(rest)) != 0) atomic_or(words + bit / 32, 1u << (bit % 32));
    }
}

// Writes two bits per element. `out` is 4-byte aligned.
template <class T, bool kNear>
MQ_DEVICE void put_dense(const Block<T, kNear>& b, std::byte* out) {
  auto* const words = reinterpret_cast<std::uint32_t*>(out);
  for (std::uint32_t w = thread(); w < b.words; w += threads()) {
    const std::uint32_t lanes = smaller(b.n - 32 * w, 32u);
    const std::uint64_t both = (b.above[w] | b.marks[w]) | static_cast<std::uint64_t>(b.below[w] | b.marks[w])
                                                               << lanes;
    words[2 * w] = static_cast<std::uint32_t>(both);
    words[2 * w + 1] = static_cast<std::uint32_t>(both >> 32);
  }
}

template <class T, class Q, bool kNear>
MQ_DEVICE void encode_ternary(const SparseEncodeArgs& a) {
  const Block<T, kNear> b(a, take_block(a));
  const Taken taken = take(b, Q::pick(b, a));
  EntryOffsets offsets{};
  TernaryFormat format = TernaryFormat::marked;
  std::uint32_t bytes = static_cast<std::uint32_t>(sizeof(T) + dense_bytes(b.n));
  if (taken.nonfinite == 0) {
    EntryTotals totals{taken.entries, 0};
    if (taken.entries <= dense_bytes(b.n))  // otherwise it is dense
      totals = locate_entries<true>(
          b.words, [&](std::uint32_t w) { return b.above[w] | b.below[w]; }, offsets);
    format = choose_format(static_cast<TernaryFormat>(a.format), totals.count,
                           totals.gap_bytes - totals.count, b.n);
    bytes = static_cast<std::uint32_t>(
        format == TernaryFormat::dense ? dense_bytes(b.n)
                                       : sparse_bytes(format, totals.count, totals.gap_bytes - totals.count));
  }
  const std::uint32_t length = static_cast<std::uint32_t>(sizeof(TernaryHeader<T>)) + bytes;
  publish_block(a, b.number, length);
  TernaryHeader<T> header(static_cast<T>(-a.value), static_cast<T>(a.value));
  if constexpr (Q::kMeans) header = mean_header(b, a, taken.entries);
  header.set(format, taken.entries, bytes);
  std::byte* payload = b.pool + sizeof header;
  if (format == TernaryFormat::marked) {
    const T mark = mark_value(b);
    if (thread() == 0) memcpy(payload, &mark, sizeof mark);
    payload += sizeof mark;
  }
  if (thread() == 0) memcpy(b.pool, &header, sizeof header);
  if (format < TernaryFormat::dense)
    put_sparse(b, format, taken.entries, offsets, payload);
  else
    put_dense(b, payload);
  correct(b, header.value[kBelow], header.value[kAbove]);
  std::byte* const to = own_wire(a, b.number, length);  // contains a barrier
  copy_out(to, b.pool, length);
  barrier();
  if (thread() == 0) end_block(a, length, taken.nonfinite);
}

template <class T, bool kNear>
MQ_DEVICE void encode_threshold(const SparseEncodeArgs& a) {
  encode_ternary<T, ThresholdPick, kNear>(a);
}
template <class T, bool kNear>
MQ_DEVICE void encode_adaptive(const SparseEncodeArgs& a) {
  encode_ternary<T, AdaptivePick, kNear>(a);
}
template <class T, bool kNear>
MQ_DEVICE void encode_adaptive_rare(const SparseEncodeArgs& a) {
  encode_ternary<T, AdaptiveRarePick, kNear>(a);
}

}  // namespace mq::kernels::cuda
