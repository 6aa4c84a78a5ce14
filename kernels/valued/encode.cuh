// Encodes topk on a device: one thread block per block of the codec, one launch for all. The wire and the
// residual equal the host's (host-inl.hpp).
#pragma once

#include "kernels/sparse/select.cuh"

namespace mq::kernels::cuda {

struct TopKPick {
  template <class T, bool kNear>
  static MQ_DEVICE Picked<T> pick(const Block<T, kNear>& b, const SparseEncodeArgs& a) {
    Selector<T, kNear> selector(b);
    const std::uint32_t k = a.k[b.n < a.block];
    const auto select = static_cast<TopKSelect>(a.search);
    selector.read(select != TopKSelect::sample, k);
    if (select != TopKSelect::exact && k < b.n) {
      Key<T> bound = 0;
      if (select == TopKSelect::approx ? selector.in_histogram(k, bound)
                                       : selector.sampled(kBoth, k, bound)) {
        Picked<T> picked = above_bounds<T>(bound, bound);
        if (near_enough(selector.count(picked), k)) return picked;
      }
    }
    return selector.exact(k);
  }
};

// Sets b.below[w] to the number of ones in b.above before word w. All threads must call it.
template <class T, bool kNear>
MQ_DEVICE void rank_words(const Block<T, kNear>& b) {
  const Owned own(b.words);
  std::uint32_t count = 0, all;
  for (std::uint32_t w = own.begin; w < own.end; ++w) count += count_ones(b.above[w]);
  std::uint32_t before = block_before(count, all);
  for (std::uint32_t w = own.begin; w < own.end; ++w) {
    b.below[w] = before;
    before += count_ones(b.above[w]);
  }
  barrier();
}

// Writes item_of(i) for each one i of b.above, ascending. The items go through the pool, as many at a time as
// fit. Call it after rank_words.
template <class Item, class T, bool kNear, class ItemOf>
MQ_DEVICE void put_ranked(const Block<T, kNear>& b, std::uint32_t count, std::uint32_t pool_bytes,
                          const ItemOf& item_of, std::byte* to) {
  auto* const stage = reinterpret_cast<Item*>(b.pool);
  const std::uint32_t room = (pool_bytes - 8) / static_cast<std::uint32_t>(sizeof(Item));
  for (std::uint32_t begin = 0; begin < count; begin += room) {
    const std::uint32_t end = smaller(begin + room, count);
    if (count <= b.n / 8) {  // few, so that a warp per word would be mostly idle
      const Owned own(b.words);
      for (std::uint32_t w = own.begin; w < own.end; ++w) {
        std::uint32_t rank = b.below[w];
        for (Word rest = b.above[w]; rest != 0; rest &= rest - 1, ++rank)
          if (rank >= begin && rank < end) stage[rank - begin] = item_of(32 * w + count_trailing_zeros(rest));
      }
    } else {
      for (std::uint32_t w = warp(); w < b.words; w += warps()) {
        const Word bits = b.above[w];
        const std::uint32_t rank = b.below[w] + count_ones(bits & lanes_below(lane()));
        if ((bits >> lane() & 1) != 0 && rank >= begin && rank < end)
          stage[rank - begin] = item_of(32 * w + lane());
      }
    }
    barrier();
    copy_out(to + std::size_t{begin} * sizeof(Item), b.pool,
             (end - begin) * static_cast<std::uint32_t>(sizeof(Item)));
    barrier();
  }
}

// Writes all elements. Elements without a bit in b.above are written as +0, unless as_they_are.
template <class T, bool kNear>
MQ_DEVICE void put_full(const Block<T, kNear>& b, std::uint32_t pool_bytes, bool as_they_are, std::byte* to) {
  auto* const stage = reinterpret_cast<T*>(b.pool);
  const std::uint32_t room = (pool_bytes - 8) / static_cast<std::uint32_t>(sizeof(T));
  for (std::uint32_t begin = 0; begin < b.n; begin += room) {
    const std::uint32_t end = smaller(begin + room, b.n);
    for (std::uint32_t i = begin + thread(); i < end; i += threads())
      stage[i - begin] = as_they_are || (b.above[i / 32] >> (i % 32) & 1) != 0 ? b.v(i) : T{0};
    barrier();
    copy_out(to + std::size_t{begin} * sizeof(T), b.pool,
             (end - begin) * static_cast<std::uint32_t>(sizeof(T)));
    barrier();
  }
}

// Sent elements and non-finite elements leave the residual.
template <class T, bool kNear>
MQ_DEVICE void correct_sent(const Block<T, kNear>& b) {
  const auto sent_of = [&](std::uint32_t w) { return b.above[w] | b.marks[w]; };
  b.correct(sent_of, [&](std::uint32_t i, T v) { return (sent_of(i / 32) >> i % 32 & 1) != 0 ? T{0} : v; });
}

// Writes the header and the part of the payload before the values into the pool; u16 positions are not
// included. Returns the size in bytes.
template <class T, bool kNear>
MQ_DEVICE std::uint32_t put_front(const Block<T, kNear>& b, const ValuedHeader& header,
                                  const EntryOffsets& offsets, std::uint32_t gap_bytes) {
  const ValuedFormat format = header.format();
  std::byte* out = b.pool + sizeof header;
  const auto bitmap = static_cast<std::uint32_t>(bitmap_bytes(b.n));
  if (format == ValuedFormat::marked) {
    const T mark = mark_value(b);
    if (thread() == 0) memcpy(out, &mark, sizeof mark);
    out += sizeof mark;
    for (std::uint32_t i = thread(); i < bitmap; i += threads())
      out[i] = static_cast<std::byte>(b.marks[i / 4] >> (8 * (i % 4)));
    out += bitmap;
  }
  if (thread() == 0) memcpy(b.pool, &header, sizeof header);
  if (format == ValuedFormat::gap) {
    put_gaps<false>(
        b.words, [&](std::uint32_t w) { return b.above[w]; }, [](std::uint32_t) { return Word{0}; }, offsets,
        out);
    out += gap_bytes;
  } else if (format == ValuedFormat::bitmap || format == ValuedFormat::marked) {
    for (std::uint32_t i = thread(); i < bitmap; i += threads())
      out[i] = static_cast<std::byte>(b.above[i / 4] >> (8 * (i % 4)));
    out += bitmap;
  }
  barrier();
  return static_cast<std::uint32_t>(out - b.pool);
}

template <class T, bool kNear>
MQ_DEVICE void encode_valued(const SparseEncodeArgs& a) {
  const Block<T, kNear> b(a, take_block(a));
  const Taken taken = take(b, TopKPick::pick(b, a));
  const Owned own(b.words);
  for (std::uint32_t w = own.begin; w < own.end; ++w) b.above[w] |= b.below[w] | b.marks[w];
  std::uint32_t count = taken.entries + taken.nonfinite;
  const bool listed = count <= (b.n + 3) / 4;
  EntryOffsets offsets{};
  EntryTotals totals{count, count};
  if (listed)
    totals = locate_entries<false>(
        b.words, [&](std::uint32_t w) { return b.above[w]; }, offsets);
  const auto bound = valued_bound<T>(b.n, a.most[b.n < a.block]);
  const std::uint32_t skips = totals.gap_bytes - totals.count;
  const ValuedFormat format =
      choose_valued<T>(static_cast<ValuedFormat>(a.format), listed, count, skips, b.n, bound);
  if (format == ValuedFormat::marked) {
    for (std::uint32_t w = own.begin; w < own.end; ++w) b.above[w] &= ~b.marks[w];
    count = taken.entries;
  }
  const auto bytes = static_cast<std::uint32_t>(valued_bytes<T>(format, count, skips, b.n));
  const std::uint32_t length = static_cast<std::uint32_t>(sizeof(ValuedHeader)) + bytes;
  publish_block(a, b.number, length);
  rank_words(b);
  const std::uint32_t front = put_front(b, ValuedHeader(format, count, bytes), offsets, totals.gap_bytes);
  std::byte* to = own_wire(a, b.number, length);
  copy_out(to, b.pool, front);
  barrier();
  to += front;
  if (format == ValuedFormat::full) {
    put_full(b, a.pool_bytes, false, to);
  } else {
    if (format == ValuedFormat::u16) {
      put_ranked<std::uint16_t>(
          b, count, a.pool_bytes, [](std::uint32_t i) { return static_cast<std::uint16_t>(i); }, to);
      to += 2 * count;
    }
    put_ranked<T>(
        b, count, a.pool_bytes, [&](std::uint32_t i) { return b.v(i); }, to);
  }
  correct_sent(b);
  barrier();
  if (thread() == 0) end_block(a, length, taken.nonfinite);
}

}  // namespace mq::kernels::cuda
