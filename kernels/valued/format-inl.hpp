// The part of the wire that host and device rows of codecs with values share: formats, header, length of a
// payload, and choice of a block's format. Included once per instruction set, and once for the device, after
// keys-inl.hpp. The layout is described in kernels/valued/wire-inl.hpp.
#pragma once

enum class ValuedFormat : std::uint32_t { best, gap, u16, bitmap, full, marked };

struct ValuedHeader {
  std::uint32_t format_count;  // format * 2^24 + number of entries; with marked, only the finite ones
  std::uint32_t payload_bytes;
  MQ_HD MQ_INLINE ValuedHeader() {}
  MQ_HD MQ_INLINE ValuedHeader(ValuedFormat format, std::size_t count, std::size_t bytes)
      : format_count(static_cast<std::uint32_t>(format) << 24 | static_cast<std::uint32_t>(count)),
        payload_bytes(static_cast<std::uint32_t>(bytes)) {}
  MQ_HD MQ_INLINE ValuedFormat format() const { return static_cast<ValuedFormat>(format_count >> 24); }
  MQ_HD MQ_INLINE std::size_t count() const { return format_count & 0xffffff; }
};
static_assert(sizeof(ValuedHeader) == 8);

MQ_HD constexpr std::size_t bitmap_bytes(std::size_t n) { return (n + 7) / 8; }

// Size of the payload of `count` entries in a block of n.
template <class T>
MQ_HD constexpr std::size_t valued_bytes(ValuedFormat format, std::size_t count, std::size_t skips,
                                         std::size_t n) {
  const std::size_t values = count * sizeof(T);
  return format == ValuedFormat::gap      ? count + skips + values
         : format == ValuedFormat::u16    ? 2 * count + values
         : format == ValuedFormat::bitmap ? bitmap_bytes(n) + values
         : format == ValuedFormat::full   ? n * sizeof(T)
                                          : sizeof(T) + 2 * bitmap_bytes(n) + values;
}

// Upper bound of the payload if at most `selected` elements are selected.
template <class T>
MQ_HD constexpr std::size_t valued_bound(std::size_t n, std::size_t selected) {
  const std::size_t full = valued_bytes<T>(ValuedFormat::full, 0, 0, n),
                    marked = valued_bytes<T>(ValuedFormat::marked, selected, 0, n);
  return full < marked ? full : marked;
}

// The requested format if its payload is within the bound, else the first of the shortest. If the entries are
// not `listed` (they are more than a quarter of the block), neither gap nor u16.
template <class T>
MQ_HD MQ_INLINE ValuedFormat choose_valued(ValuedFormat asked, bool listed, std::size_t count,
                                           std::size_t skips, std::size_t n, std::size_t bound) {
  constexpr ValuedFormat kFormats[]{ValuedFormat::gap, ValuedFormat::u16, ValuedFormat::bitmap,
                                    ValuedFormat::full};
  ValuedFormat chosen = ValuedFormat::marked;
  std::size_t least = bound + 1;
  for (const ValuedFormat format : kFormats) {
    if (!listed && format < ValuedFormat::bitmap) continue;
    const std::size_t bytes = valued_bytes<T>(format, count, skips, n);
    if (bytes <= bound && format == asked) return format;
    if (bytes < least) {
      chosen = format;
      least = bytes;
    }
  }
  return chosen;
}
