// The loops of codecs that send elements with their values. Included once per instruction set, after
// wire-inl.hpp.
//
// Such a codec has kName, kWhat, kId, kLossless, kSpecs, block(params), Family = Valued, and
//
//   first_floor, next_floor   the floor for candidates in the first block, and in the next block
//   select                    which finite elements of a block are sent (select-inl.hpp)
//   most(n, params)           the largest number of these elements
//   format                    the requested format
//
// SparseBlocks describes encode. What is sent becomes 0 in the residual, which needs no further correction.
// Memory traffic for floats is 12 bytes per element plus the wire. Blocks that are not written as a list need
// three more passes in L2.
#pragma once
#include "kernels/host/loops-inl.hpp"
#include "kernels/valued/wire-inl.hpp"

template <class T, class Q>
struct Valued : SparseBlocks<T, Q, Valued<T, Q>> {
  using L = Lanes<T>;
  using Format = ValuedFormat;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);

  static constexpr std::size_t block_bound(std::size_t n, const Params& params) {
    return sizeof(ValuedHeader) + valued_bound<T>(n, Q::most(n, params));
  }

  // Returns the number of bytes written.
  template <Feedback F>
  static std::size_t encode_block(Candidates<T>& block, const Selection<T>& selection, std::byte* residual,
                                  const Params& params, std::byte* wire, std::uint64_t& nonfinite) {
    const std::size_t bound = valued_bound<T>(block.n, Q::most(block.n, params));
    Entries entries{nullptr, 0, 0};
    std::size_t marks = 0;
    bool listed = block.listed();
    if (listed)
      marks = Keep<T>::selected(block, selection, entries);
    else
      listed = Keep<T>::unlisted(block, selection, entries, marks);
    if (listed) {
      entries.skips = skips_of<false>(entries);
      const Format format =
          choose_valued<T>(Q::format(params), true, entries.count, entries.skips, block.n, bound);
      if (format == Format::gap || format == Format::u16) {
        nonfinite += marks;
        return encode_list<F>(block, entries, format, residual, wire);
      }
    }
    return encode_dense<F>(block, selection, residual, Q::format(params), bound, wire, nonfinite);
  }

  // Returns the size of the block in bytes, or 0 if it is malformed.
  static std::size_t decode_block(const std::byte* wire, std::size_t left, const std::byte* base,
                                  std::byte* x, std::size_t n, const Params& params, bool stream) {
    ValuedHeader header;
    if (left < sizeof header) return 0;
    std::memcpy(&header, wire, sizeof header);
    const std::byte* const payload = wire + sizeof header;
    const std::size_t bytes = header.payload_bytes;
    if (bytes > left - sizeof header || bytes > valued_bound<T>(n, Q::most(n, params))) return 0;
    bool decoded = false;
    if (header.format() == Format::gap || header.format() == Format::u16)
      decoded = decode_entries<T>(ValuedWalk<T>{header, payload, n}, base, x, n, stream);
    else if (header.format() >= Format::bitmap && header.format() <= Format::marked)
      decoded = decode_dense(header, payload, base, x, n, stream);
    return decoded ? sizeof header + bytes : 0;
  }

 private:
  struct NoLoss {
    MQ_INLINE T operator()(std::uint32_t, T) const { return T{0}; }
  };

  template <Feedback F>
  static std::size_t encode_list(const Candidates<T>& block, const Entries& entries, Format format,
                                 std::byte* residual, std::byte* wire) {
    const std::size_t bytes = valued_bytes<T>(format, entries.count, entries.skips, block.n);
    const ValuedHeader header(format, entries.count, bytes);
    std::memcpy(wire, &header, sizeof header);
    wire += sizeof header;
    std::byte* const values = wire + (bytes - entries.count * sizeof(T));
    format == Format::gap ? put_gaps<false>(entries, wire) : put_positions(entries, wire);
    for (std::size_t i = 0; i < entries.count; ++i) {
      const std::uint32_t position = entries.entry[i] >> 1;
      set_element<T>(values, i, block.value_of(i, position));
      if constexpr (F == Feedback::carry) set_element<T>(residual, position, T{0});
    }
    if constexpr (F == Feedback::deposit)
      Deposit<T, NoLoss>::all(block.v, block.n, residual, entries, NoLoss{});
    return sizeof header + bytes;
  }

  // One bit per element of a block that is sent, in groups.
  struct Sent {
    std::uint32_t group[kMaxSparseBlock / kLanes];
    std::size_t selected, marks;
    MQ_INLINE Sent() : selected(0), marks(0) {}
  };

  template <Feedback F>
  static std::size_t encode_dense(const Candidates<T>& block, Selection<T> selection, std::byte* residual,
                                  Format asked, std::size_t bound, std::byte* wire,
                                  std::uint64_t& nonfinite) {
    const std::byte* const v = block.v;
    const std::size_t n = block.n;
    Sent sent;
    for (std::size_t g = 0; g < n / kLanes; ++g) add_group(v, g, selection, sent, Whole{});
    if (n % kLanes) add_group(v, n / kLanes, selection, sent, Part{n % kLanes});
    nonfinite += sent.marks;
    Entries entries{nullptr, sent.selected + sent.marks, 0};
    const Format format = choose_valued<T>(asked, false, entries.count, 0, n, bound);
    if (format == Format::marked) entries.count = sent.selected;
    const std::size_t bytes = valued_bytes<T>(format, entries.count, 0, n);
    const ValuedHeader header(format, entries.count, bytes);
    std::memcpy(wire, &header, sizeof header);
    std::byte* payload = wire + sizeof header;
    if (format == Format::full) {
      put_full(v, n, sent, payload);
    } else {
      if (format == Format::marked) payload = put_marks(v, n, sent, payload);
      put_bitmap(v, n, sent, payload, wire + sizeof header + bytes);
    }
    if constexpr (F != Feedback::none) {
      for (std::size_t g = 0; g < n / kLanes; ++g) correct_group<F>(v, g, sent, residual, Whole{});
      if (n % kLanes) correct_group<F>(v, n / kLanes, sent, residual, Part{n % kLanes});
    }
    return sizeof header + bytes;
  }

  template <class W>
  static MQ_INLINE void add_group(const std::byte* v, std::size_t g, Selection<T>& selection, Sent& sent,
                                  W width) {
    const GroupBits taken = take_group(L::load(v + g * kGroupBytes, width), selection, width);
    sent.group[g] = taken.above | taken.below | taken.nonfinite;
    sent.selected += static_cast<std::size_t>(std::popcount(taken.above | taken.below));
    sent.marks += static_cast<std::size_t>(std::popcount(taken.nonfinite));
  }

  static void put_full(const std::byte* v, std::size_t n, const Sent& sent, std::byte* to) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g)
      sent_lanes(v, g, sent, Whole{}).store(to + g * kGroupBytes, Whole{});
    if (rest) sent_lanes(v, whole, sent, Part{rest}).store(to + whole * kGroupBytes, Part{rest});
  }
  template <class W>
  static MQ_INLINE L sent_lanes(const std::byte* v, std::size_t g, const Sent& sent, W width) {
    return L::select(L::mask_of(sent.group[g]), L::load(v + g * kGroupBytes, width), L::all(T{0}));
  }

  // Writes the value of the non-finite elements and the bitmap of their positions. Afterwards these elements
  // are no longer entries. Returns the end.
  static std::byte* put_marks(const std::byte* v, std::size_t n, Sent& sent, std::byte* to) {
    const T mark = nonfinite_of<T>(v, n).mark;
    std::memcpy(to, &mark, sizeof mark);
    std::byte* const bitmap = to + sizeof mark;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) put_marks(v, g, sent, bitmap, Whole{});
    if (rest) put_marks(v, whole, sent, bitmap, Part{rest});
    return bitmap + bitmap_bytes(n);
  }
  template <class W>
  static MQ_INLINE void put_marks(const std::byte* v, std::size_t g, Sent& sent, std::byte* bitmap, W width) {
    const std::uint32_t marks = ~L::load(v + g * kGroupBytes, width).finite().bits() & width.bits;
    store_bits(bitmap + g * sizeof marks, marks, width);
    sent.group[g] &= ~marks;
  }

  // The values end at `end`.
  static void put_bitmap(const std::byte* v, std::size_t n, const Sent& sent, std::byte* bitmap,
                         std::byte* end) {
    std::byte* values = bitmap + bitmap_bytes(n);
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g) values = put_group(v, g, sent, bitmap, values, end, Whole{});
    if (rest) put_group(v, whole, sent, bitmap, values, end, Part{rest});
  }
  template <class W>
  static MQ_INLINE std::byte* put_group(const std::byte* v, std::size_t g, const Sent& sent,
                                        std::byte* bitmap, std::byte* values, std::byte* end, W width) {
    const std::uint32_t bits = sent.group[g];
    const std::size_t bytes = static_cast<std::size_t>(std::popcount(bits)) * sizeof(T);
    store_bits(bitmap + g * sizeof bits, bits, width);
    const L lanes = L::load(v + g * kGroupBytes, width);
    if (static_cast<std::size_t>(end - values) >= kGroupBytes) {
      append_bytes(values, bits, lanes);
    } else {
      std::byte last[kGroupBytes];
      append_bytes(last, bits, lanes);
      std::memcpy(values, last, bytes);
    }
    return values + bytes;
  }

  template <Feedback F, class W>
  static MQ_INLINE void correct_group(const std::byte* v, std::size_t g, const Sent& sent,
                                      std::byte* residual, W width) {
    const L lanes = L::load(v + g * kGroupBytes, width), zero = L::all(T{0});
    L kept = L::select(L::mask_of(sent.group[g]), zero, lanes);
    kept = L::select(lanes.finite(), kept, zero);
    if constexpr (F == Feedback::deposit) kept = deposited(L::load(residual + g * kGroupBytes, width), kept);
    kept.store(residual + g * kGroupBytes, width);
  }

  // The parts of a payload in one of the other formats.
  struct Dense {
    const std::byte *marks, *bitmap, *values, *end;  // null if the format has no such part
    T mark;
  };

  static bool decode_dense(const ValuedHeader& header, const std::byte* payload, const std::byte* base,
                           std::byte* x, std::size_t n, bool stream) {
    const Format format = header.format();
    if (header.payload_bytes != valued_bytes<T>(format, header.count(), 0, n)) return false;
    Dense dense{nullptr, nullptr, payload, payload + header.payload_bytes, T{0}};
    if (format == Format::marked) {
      std::memcpy(&dense.mark, payload, sizeof(T));
      dense.marks = payload + sizeof(T);
      if (std::isfinite(dense.mark)) return false;
    }
    if (format != Format::full) {
      dense.bitmap = dense.marks ? dense.marks + bitmap_bytes(n) : payload;
      dense.values = dense.bitmap + bitmap_bytes(n);
    }
    if (!valid(dense, n, header.count())) return false;
    return store_by(stream, x, [&](auto store) {
      return base ? put_dense<true>(dense, base, x, n, store) : put_dense<false>(dense, base, x, n, store);
    });
  }

  static bool valid(const Dense& dense, std::size_t n, std::size_t count) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    std::size_t entries = 0, marks = 0;
    bool apart = true;
    for (std::size_t g = 0; g < whole; ++g) apart &= count_group(dense, g, entries, marks, Whole{});
    if (rest) apart &= count_group(dense, whole, entries, marks, Part{rest});
    return apart && entries == count && (marks > 0) == (dense.marks != nullptr);
  }
  template <class W>
  static MQ_INLINE std::uint32_t bits_of(const std::byte* bitmap, std::size_t g, W width) {
    return bitmap ? load_bits(bitmap + g * sizeof(std::uint32_t), width) : 0;
  }
  // False if a bit after the last element is set, or if an element has both bits.
  template <class W>
  static MQ_INLINE bool count_group(const Dense& dense, std::size_t g, std::size_t& entries,
                                    std::size_t& marks, W width) {
    const std::uint32_t marked = bits_of(dense.marks, g, width);
    const std::uint32_t sent = dense.bitmap ? bits_of(dense.bitmap, g, width)
                                            : not_zero(L::load(dense.values + g * kGroupBytes, width));
    entries += static_cast<std::size_t>(std::popcount(sent));
    marks += static_cast<std::size_t>(std::popcount(marked));
    return (marked & sent) == 0 && ((marked | sent) & ~width.bits) == 0;
  }
  static MQ_INLINE std::uint32_t not_zero(const L& v) { return ~L::all(T{0}).at_least(v.abs()).bits(); }

  template <bool kAdd, class Store>
  static bool put_dense(Dense dense, const std::byte* base, std::byte* x, std::size_t n, Store store) {
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    bool valid = true;
    for (std::size_t g = 0; g < whole; ++g)
      decoded_group<kAdd>(dense, g, base, valid, Whole{}).store(x + g * kGroupBytes, store);
    if (rest)
      decoded_group<kAdd>(dense, whole, base, valid, Part{rest}).store(x + whole * kGroupBytes, Part{rest});
    return valid;
  }
  // Advances dense.values past the values of the group. Sets `valid` to false if one of them is 0.
  template <bool kAdd, class W>
  static MQ_INLINE L decoded_group(Dense& dense, std::size_t g, const std::byte* base, bool& valid, W width) {
    const std::uint32_t marked = bits_of(dense.marks, g, width);
    std::uint32_t sent = bits_of(dense.bitmap, g, width);
    L v;
    if (dense.bitmap) {
      v = expand_lanes<T>(dense.values, sent, dense.end);
      dense.values += static_cast<std::size_t>(std::popcount(sent)) * sizeof(T);
      valid &= (~not_zero(v) & sent) == 0;
    } else {
      v = L::load(dense.values + g * kGroupBytes, width);
      sent = not_zero(v);
      v = L::select(L::mask_of(sent), v, L::all(T{0}));  // removes -0, which encode never writes
    }
    if (marked) v = L::select(L::mask_of(marked), L::all(dense.mark), v);
    if constexpr (!kAdd) return v;
    const L old = L::load(base + g * kGroupBytes, width);
    L sum = old + v;
    sum = L::select(sum.ordered(), sum, L::all(std::numeric_limits<T>::quiet_NaN()));
    return L::select(L::mask_of(sent | marked), sum, old);
  }
};
