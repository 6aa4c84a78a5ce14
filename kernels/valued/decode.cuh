// Decodes topk and zerorun on a device: bits in shared memory, and after them the values, found by rank.
#pragma once

#include "kernels/sparse/decode.cuh"

namespace mq::kernels::cuda {

// Sets t.below[w] to the number of ones in t.above before word w. Returns the number of all ones.
template <class T>
MQ_DEVICE std::uint32_t rank_words(const Target<T>& t) {
  const Owned own(t.words);
  std::uint32_t count = 0, all;
  for (std::uint32_t w = own.begin; w < own.end; ++w) count += count_ones(t.above[w]);
  std::uint32_t before = block_before(count, all);
  for (std::uint32_t w = own.begin; w < own.end; ++w) {
    t.below[w] = before;
    before += count_ones(t.above[w]);
  }
  barrier();
  return all;
}

// Reads a bitmap into words. Bits after the last element are an error.
template <class T>
MQ_DEVICE void parse_bitmap(Target<T>& t, const std::byte* in, Word* words) {
  for (std::uint32_t w = thread(); w < t.words; w += threads()) {
    const std::uint32_t bytes = (smaller(t.n - 32 * w, 32u) + 7) / 8;
    Word bits = 0;
    for (std::uint32_t i = 0; i < bytes; ++i) bits |= static_cast<Word>(in[4 * w + i]) << (8 * i);
    t.bad |= (bits & ~existing(w, t.n)) != 0;
    words[w] = bits & existing(w, t.n);
  }
}

// Returns where the values begin. If the payload is malformed, t.bad is set.
template <class T>
MQ_DEVICE const std::byte* parse_valued(Target<T>& t, const ValuedHeader& header, T& mark) {
  const std::byte* in = t.wire + sizeof header;
  const ValuedFormat format = header.format();
  const std::uint32_t bytes = header.payload_bytes, count = static_cast<std::uint32_t>(header.count());
  const std::uint64_t value_bytes = std::uint64_t{count} * sizeof(T);
  if (format == ValuedFormat::gap || format == ValuedFormat::u16) {
    t.bad = bytes < value_bytes;
    if (t.bad) return nullptr;
    const auto front = static_cast<std::uint32_t>(bytes - value_bytes);
    if (format == ValuedFormat::gap) {
      parse_gaps<false>(t, in, front, count);
    } else {
      t.bad = front != 2 * count;
      if (t.bad) return nullptr;
      parse_positions(
          t, count, [&](std::uint32_t i) -> std::uint32_t { return load<std::uint16_t>(in + 2 * i); },
          [](std::uint32_t) { return 1u; });
    }
    return in + front;
  }
  t.bad = format < ValuedFormat::bitmap || format > ValuedFormat::marked ||
          bytes != valued_bytes<T>(format, count, 0, t.n);
  if (t.bad || format == ValuedFormat::full) return in;
  if (format == ValuedFormat::marked) {
    memcpy(&mark, in, sizeof mark);
    t.bad = is_finite(mark);
    in += sizeof mark;
    parse_bitmap(t, in, t.marks);
    in += bitmap_bytes(t.n);
  }
  parse_bitmap(t, in, t.above);
  barrier();
  std::uint32_t marks = 0;
  for (std::uint32_t w = thread(); w < t.words; w += threads()) {
    marks |= t.marks[w];
    t.bad |= (t.above[w] & t.marks[w]) != 0;
  }
  t.bad |= barrier_or(marks != 0) != (format == ValuedFormat::marked);
  return in + bitmap_bytes(t.n);
}

// The value of element l of word w. The element must be sent.
template <class T>
MQ_DEVICE T value_at(const Target<T>& t, const std::byte* values, std::uint32_t w, std::uint32_t l) {
  const std::uint32_t rank = t.below[w] + count_ones(t.above[w] & lanes_below(l));
  return load<T>(values + std::size_t{rank} * sizeof(T));
}

// Decodes a block in format full, which has no bits: elements that are 0 are no entries.
template <class T>
MQ_DEVICE void decode_full(Target<T>& t, const std::byte* values, std::uint32_t count) {
  std::uint32_t sent = 0;
  write_elements(t, [&](std::uint32_t w, std::uint32_t l, bool& entry) {
    const T v = load<T>(values + (std::size_t{32} * w + l) * sizeof(T));
    entry = v != T{0};
    sent += entry;
    return entry ? v : T{0};  // never -0, which encode does not write
  });
  t.bad = block_sum(sent) != count;
  t.refused();
}

template <class T>
MQ_DEVICE void decode_valued(const SparseDecodeArgs& a) {
  const std::uint64_t offset = find_block<ValuedLength<T>>(a);
  if (offset == kNoBlock) return;
  Target<T> t(a, offset);
  ValuedHeader header;
  memcpy(&header, t.wire, sizeof header);
  T mark{0};
  const std::byte* const values = parse_valued(t, header, mark);
  if (t.refused()) return;
  const auto count = static_cast<std::uint32_t>(header.count());
  if (header.format() == ValuedFormat::full) return decode_full(t, values, count);
  t.bad = rank_words(t) != count;
  if (t.refused()) return;
  write_entries(
      t, count, [&](std::uint32_t w) { return t.above[w] | t.marks[w]; },
      [&](std::uint32_t w, std::uint32_t l, bool& entry) {
        const bool sent = (t.above[w] >> l & 1) != 0, marked = (t.marks[w] >> l & 1) != 0;
        entry = sent || marked;
        if (!sent) return marked ? mark : T{0};
        const T value = value_at(t, values, w, l);
        t.bad |= value == T{0};
        return value;
      });
  t.refused();
}

// Reads the bits of the groups that have elements into t.above.
template <class T>
MQ_DEVICE void parse_groups(Target<T>& t, const std::byte* top, const std::byte* words) {
  const Owned own(t.words);
  const auto is_set = [&](std::uint32_t g) {
    return (static_cast<std::uint32_t>(top[g / 8]) >> (g % 8) & 1) != 0;
  };
  std::uint32_t count = 0, all;
  for (std::uint32_t g = own.begin; g < own.end; ++g) count += is_set(g);
  std::uint32_t rank = block_before(count, all);
  for (std::uint32_t g = own.begin; g < own.end; ++g) {
    if (!is_set(g)) continue;
    const Word bits = load<std::uint32_t>(words + std::size_t{4} * rank++);
    t.bad |= bits == 0 || (bits & ~existing(g, t.n)) != 0;
    t.above[g] = bits & existing(g, t.n);
  }
  t.bad |= t.words % 8 != 0 && static_cast<std::uint32_t>(top[t.words / 8]) >> (t.words % 8) != 0;
  barrier();
}

template <class T>
MQ_DEVICE void decode_zeros(const SparseDecodeArgs& a) {
  const std::uint64_t offset = find_block<ZerosLength<T>>(a);
  if (offset == kNoBlock) return;
  Target<T> t(a, offset);
  const auto count = load<std::uint32_t>(t.wire);
  const std::byte* values = t.wire + sizeof count;
  if (count == t.n) {
    return write_elements(t, [&](std::uint32_t w, std::uint32_t l, bool& entry) {
      entry = true;
      return load<T>(values + (std::size_t{32} * w + l) * sizeof(T));
    });
  }
  const std::byte* const top = values;
  values += top_bytes(t.n);
  parse_groups(t, top, values + std::size_t{count} * sizeof(T));
  t.bad |= rank_words(t) != count;
  if (t.refused()) return;
  write_elements(t, [&](std::uint32_t w, std::uint32_t l, bool& entry) {
    entry = true;  // zeros are added too: -0 + 0 is +0
    return (t.above[w] >> l & 1) != 0 ? value_at(t, values, w, l) : T{0};
  });
}

}  // namespace mq::kernels::cuda
