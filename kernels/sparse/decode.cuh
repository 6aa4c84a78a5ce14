// Decodes the sparse codecs on a device: one thread block per block of the codec. The payload becomes bits of
// elements in shared memory and is checked as on the host. From there x is written, 16 bytes at once. If x is
// base, only sent elements and those beside them are accessed.
#pragma once

#include "kernels/sparse/walk.cuh"

namespace mq::kernels::cuda {

// The source and the destination of a block. bad: this thread has found that encode cannot have written the
// block.
template <class T>
struct Target {
  const std::byte *wire, *base;
  std::byte* x;
  std::uint32_t n, words, most;
  Word *above, *below, *marks;
  std::uint32_t* malformed;
  bool bad = false;

  MQ_DEVICE Target(const SparseDecodeArgs& a, std::uint64_t offset)
      : wire(a.wire + offset), malformed(a.malformed) {
    const std::uint64_t begin = std::uint64_t{block()} * a.block;
    n = static_cast<std::uint32_t>(smaller<std::uint64_t>(a.block, a.n - begin));
    words = words_of(n);
    most = a.most[n < a.block];
    base = a.base == nullptr ? nullptr : a.base + begin * sizeof(T);
    x = a.x + begin * sizeof(T);
    above = reinterpret_cast<Word*>(dynamic_shared());
    below = above + words_of(a.block);
    marks = below + words_of(a.block);
    for (std::uint32_t w = thread(); w < words; w += threads()) above[w] = below[w] = marks[w] = 0;
    barrier();
  }
  // True if any thread has found an error. Then it also sets *malformed.
  MQ_DEVICE bool refused() const {
    const bool any_bad = barrier_or(bad);
    if (any_bad && thread() == 0) *malformed = 1;
    return any_bad;
  }
};

// Writes elements [kEach * begin, kEach * end), kEach of them at once. kWhole: x and base are multiples of
// the size of these.
template <std::uint32_t kEach, bool kWhole, class T, class ValueOf>
MQ_DEVICE void write_range(const Target<T>& t, std::uint32_t begin, std::uint32_t end,
                           const ValueOf& value_of) {
  struct Elements {
    Pack<T, kEach> value, old;
    std::uint32_t entries;  // a bit for each
  };
  const auto offset = [](std::uint32_t p) { return std::size_t{p} * kEach * sizeof(T); };
  in_batches<2>(
      begin + thread(), end, threads(),
      [&](std::uint32_t p) {
        Elements e{};
        MQ_UNROLL(4)
        for (std::uint32_t j = 0; j < kEach; ++j) {
          bool entry = false;
          e.value.of[j] = value_of(kEach * p / 32, kEach * p % 32 + j, entry);
          e.entries |= static_cast<std::uint32_t>(entry) << j;
        }
        if (t.base == nullptr || (t.base == t.x && e.entries == 0)) return e;
        if constexpr (kWhole)
          e.old = load_pack<T, kEach>(t.base + offset(p));
        else
          e.old.of[0] = load<T>(t.base + offset(p));
        return e;
      },
      [&](std::uint32_t p, Elements e) {
        if (t.base != nullptr) {
          if (t.base == t.x && e.entries == 0) return;
          MQ_UNROLL(4)
          for (std::uint32_t j = 0; j < kEach; ++j)
            e.value.of[j] = (e.entries >> j & 1) != 0 ? joined_sum(e.old.of[j], e.value.of[j]) : e.old.of[j];
        }
        if constexpr (kWhole)
          store_pack(t.x + offset(p), e.value);
        else
          store<T>(t.x + offset(p), e.value.of[0]);
      });
}

// Writes x. value_of(w, l, entry) returns element l of word w and sets `entry` if it is an entry; otherwise
// it returns 0. With base, an element that is no entry is copied from base.
template <class T, class ValueOf>
MQ_DEVICE void write_elements(const Target<T>& t, const ValueOf& value_of) {
  if (packs<T>(t.x) && packs<T>(t.base)) {
    const std::uint32_t whole = t.n / kPack<T>;
    write_range<kPack<T>, true>(t, 0, whole, value_of);
    write_range<1, true>(t, kPack<T> * whole, t.n, value_of);
  } else if (aligned(t.x, sizeof(T)) && aligned(t.base, sizeof(T))) {
    write_range<1, true>(t, 0, t.n, value_of);
  } else {
    write_range<1, false>(t, 0, t.n, value_of);
  }
}

// Adds the entries to x, which is base. entries_of(w): the entries of word w. A thread collects a few entries
// of its words, so that their reads are under way together.
template <class T, class EntriesOf, class ValueOf>
MQ_DEVICE void add_entries(const Target<T>& t, const EntriesOf& entries_of, const ValueOf& value_of) {
  constexpr std::uint32_t kAtOnce = 4;
  std::uint32_t w = thread();
  Word rest = w < t.words ? entries_of(w) : 0;
  while (w < t.words) {
    std::byte* to[kAtOnce];
    T value[kAtOnce], old[kAtOnce];
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kAtOnce; ++j) {
      while (rest == 0 && w < t.words) {
        w += threads();
        if (w < t.words) rest = entries_of(w);
      }
      to[j] = nullptr;
      if (rest == 0) continue;
      const std::uint32_t l = count_trailing_zeros(rest);
      rest &= rest - 1;
      to[j] = t.x + (std::size_t{32} * w + l) * sizeof(T);
      bool entry = false;
      value[j] = value_of(w, l, entry);
      old[j] = load<T>(to[j]);
    }
    MQ_UNROLL(4)
    for (std::uint32_t j = 0; j < kAtOnce; ++j)
      if (to[j] != nullptr) store<T>(to[j], joined_sum(old[j], value[j]));
  }
}

// Writes x, in which `count` elements are entries. Where these are few and x is base, most of x is not
// accessed.
template <class T, class EntriesOf, class ValueOf>
MQ_DEVICE void write_entries(const Target<T>& t, std::uint32_t count, const EntriesOf& entries_of,
                             const ValueOf& value_of) {
  if (t.base == t.x && count <= t.n / 16)
    add_entries(t, entries_of, value_of);
  else
    write_elements(t, value_of);
}

// Sets the bit of element i: in `above` if its sign is 1, else in `below`.
template <class T>
MQ_DEVICE void set_entry(const Target<T>& t, std::uint32_t i, std::uint32_t sign) {
  atomic_or((sign != 0 ? t.above : t.below) + i / 32, Word{1} << (i % 32));
}

template <bool kSigned, class T>
MQ_DEVICE void parse_gaps(Target<T>& t, const std::byte* in, std::uint32_t bytes, std::uint32_t count) {
  const std::uint32_t each = (bytes + threads() - 1) / threads();
  const std::uint32_t begin = smaller(thread() * each, bytes), end = smaller(begin + each, bytes);
  std::uint64_t sum = 0, all;  // positions, plus 2^32 per entry
  for (std::uint32_t i = begin; i < end; ++i) {
    const auto code = static_cast<std::uint32_t>(in[i]), gap = kSigned ? code >> 1 : code;
    sum += gap == kSkip<kSigned> ? gap : gap + 1 + (std::uint64_t{1} << 32);
  }
  auto next = static_cast<std::uint32_t>(block_before(sum, all));
  t.bad |= all >> 32 != count;
  for (std::uint32_t i = begin; i < end; ++i) {
    const auto code = static_cast<std::uint32_t>(in[i]), gap = kSigned ? code >> 1 : code;
    const std::uint32_t sign = kSigned ? code & 1 : 1;
    next += gap;
    if (gap == kSkip<kSigned>) {
      t.bad |= (kSigned && sign != 0) || i + 1 == bytes;
    } else if (next < t.n) {
      set_entry(t, next++, sign);
    } else {
      t.bad = true;
      ++next;
    }
  }
}

// position_of(i) must ascend; sign_of(i) is 1 for above.
template <class T, class PositionOf, class SignOf>
MQ_DEVICE void parse_positions(Target<T>& t, std::uint32_t count, const PositionOf& position_of,
                               const SignOf& sign_of) {
  for (std::uint32_t i = thread(); i < count; i += threads()) {
    const std::uint32_t position = position_of(i);
    const bool ok = position < t.n && (i == 0 || position_of(i - 1) < position);
    t.bad |= !ok;
    if (ok) set_entry(t, position, sign_of(i));
  }
}

// Reads two fields of one bit per element, group after group. Bits after the last element are an error.
template <class T>
MQ_DEVICE void parse_dense(Target<T>& t, const std::byte* codes, std::uint32_t count, bool marked) {
  std::uint64_t found = 0;
  for (std::uint32_t w = thread(); w < t.words; w += threads()) {
    const std::uint32_t lanes = smaller(t.n - 32 * w, 32u);
    std::uint64_t both = 0;
    const auto bytes = static_cast<std::uint32_t>(dense_bytes(lanes));
    for (std::uint32_t i = 0; i < bytes; ++i)
      both |= static_cast<std::uint64_t>(codes[8 * std::size_t{w} + i]) << (8 * i);
    const Word exist = existing(w, t.n);
    t.above[w] = static_cast<Word>(both) & exist;
    t.below[w] = static_cast<Word>(both >> lanes) & exist;
    t.bad |= lanes < 32 && both >> (2 * lanes) != 0;
    found += count_ones(t.above[w] ^ t.below[w]) |
             static_cast<std::uint64_t>(count_ones(t.above[w] & t.below[w])) << 32;
  }
  found = block_sum(found);
  t.bad |= static_cast<std::uint32_t>(found) != count || (found >> 32 != 0) != marked;
}

template <class T>
MQ_DEVICE void parse_ternary(Target<T>& t, const TernaryHeader<T>& header, T& mark) {
  const std::byte* const in = t.wire + sizeof header;
  const std::uint32_t bytes = header.payload_bytes, count = static_cast<std::uint32_t>(header.count());
  const TernaryFormat format = header.format();
  if (format >= TernaryFormat::dense) {
    const bool marked = format == TernaryFormat::marked;
    const std::uint32_t mark_bytes = marked ? sizeof(T) : 0;
    t.bad = bytes != mark_bytes + dense_bytes(t.n);
    if (t.bad) return;
    memcpy(&mark, in, mark_bytes);
    t.bad = is_finite(mark) == marked;
    return parse_dense(t, in + mark_bytes, count, marked);
  }
  t.bad =
      bytes > dense_bytes(t.n) || (format != TernaryFormat::gap && bytes != sparse_bytes(format, count, 0));
  if (t.bad) return;
  if (format == TernaryFormat::gap) return parse_gaps<true>(t, in, bytes, count);
  if (format == TernaryFormat::u32)
    return parse_positions(
        t, count, [&](std::uint32_t i) { return load<std::uint32_t>(in + 4 * i) >> 1; },
        [&](std::uint32_t i) { return load<std::uint32_t>(in + 4 * i) & 1; });
  const std::byte* const signs = in + 2 * count;
  parse_positions(
      t, count, [&](std::uint32_t i) -> std::uint32_t { return load<std::uint16_t>(in + 2 * i); },
      [&](std::uint32_t i) { return static_cast<std::uint32_t>(signs[i / 8]) >> (i % 8) & 1; });
  t.bad |= count % 8 != 0 && static_cast<std::uint32_t>(signs[count / 8]) >> (count % 8) != 0;
}

// Writes x, of which t.above are `high`, t.below `low`, and both `mark`.
template <class T>
MQ_DEVICE void write_sides(const Target<T>& t, std::uint32_t count, T low, T high, T mark) {
  write_entries(
      t, count, [&](std::uint32_t w) { return t.above[w] | t.below[w]; },
      [&](std::uint32_t w, std::uint32_t l, bool& entry) {
        const bool above = (t.above[w] >> l & 1) != 0, below = (t.below[w] >> l & 1) != 0;
        entry = above || below;
        return above && below ? mark : above ? high : below ? low : T{0};
      });
}

template <class T>
MQ_DEVICE void decode_ternary(const SparseDecodeArgs& a) {
  const std::uint64_t offset = find_block<TernaryLength<T>>(a);
  if (offset == kNoBlock) return;
  Target<T> t(a, offset);
  TernaryHeader<T> header;
  memcpy(&header, t.wire, sizeof header);
  T mark{0};
  t.bad = !header.valid();
  if (!t.bad) parse_ternary(t, header, mark);
  if (t.refused()) return;
  write_sides(t, static_cast<std::uint32_t>(header.count()), header.value[kBelow], header.value[kAbove],
              mark);
}

}  // namespace mq::kernels::cuda
