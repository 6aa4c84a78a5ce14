// The wire of codecs that send a few elements of a block with their values: where these stand, in the
// smallest of a few formats, then the values. Separate because it knows nothing of how they were chosen.
// Included once per instruction set, after ternary_wire-inl.hpp, whose gaps and positions it writes.
//
// Wire, per block: ValuedHeader, then the payload. An *entry* is an element that is sent: one that is
// selected, or one that is not finite. Bytes of the payload for c entries of S bytes in a block of n:
//   gap     c + (skips, at most n / 255) + c S: a byte an entry, the distance from the entry before; put_gaps
//   u16     2 c + c S: positions, ascending
//   bitmap  n / 8 + c S: a bit an element
//   full    n S: all elements, those that are not sent as +0; no entry is 0
//   marked  S + 2 n / 8 + c S: the value of all elements that are not finite, a bitmap of them, one of the c
//           other entries: where a block has so many of the former that any other format exceeds the bound
// The encoder takes the smallest. No payload is longer than full, or than marked with the most elements the
// codec selects, whichever is shorter: that bounds the wire.

enum class ValuedFormat : std::uint32_t { best, gap, u16, bitmap, full, marked };
inline constexpr std::array<std::string_view, 4> kValuedFormats{"auto", "gap", "u16", "bitmap"};

struct ValuedHeader {
  std::uint32_t format_count;  // format * 2^24 + entries; of marked, without the elements that are not finite
  std::uint32_t payload_bytes;
  MQ_INLINE ValuedHeader() {}
  MQ_INLINE ValuedHeader(ValuedFormat format, std::size_t count, std::size_t bytes)
      : format_count(static_cast<std::uint32_t>(format) << 24 | static_cast<std::uint32_t>(count)),
        payload_bytes(static_cast<std::uint32_t>(bytes)) {}
  MQ_INLINE ValuedFormat format() const { return static_cast<ValuedFormat>(format_count >> 24); }
  MQ_INLINE std::size_t count() const { return format_count & 0xffffff; }
};
static_assert(sizeof(ValuedHeader) == 8);

constexpr std::size_t bitmap_bytes(std::size_t n) { return (n + 7) / 8; }

template <class T>
constexpr std::size_t valued_bytes(ValuedFormat format, const Entries& e, std::size_t n) {
  const std::size_t values = e.count * sizeof(T);
  switch (format) {
    case ValuedFormat::gap: return e.count + e.skips + values;
    case ValuedFormat::u16: return 2 * e.count + values;
    case ValuedFormat::bitmap: return bitmap_bytes(n) + values;
    case ValuedFormat::full: return n * sizeof(T);
    default: return sizeof(T) + 2 * bitmap_bytes(n) + values;
  }
}

// Of the payload, if at most `selected` elements are.
template <class T>
constexpr std::size_t valued_bound(std::size_t n, std::size_t selected) {
  return std::min(valued_bytes<T>(ValuedFormat::full, {nullptr, 0, 0}, n),
                  valued_bytes<T>(ValuedFormat::marked, {nullptr, selected, 0}, n));
}

// The format asked for if it is within the bound, else the first of the smallest; without a list of entries,
// which are then more than a quarter, neither gap nor u16.
template <class T>
ValuedFormat choose_valued(ValuedFormat asked, const Entries& e, std::size_t n, std::size_t bound) {
  constexpr ValuedFormat kFormats[]{ValuedFormat::gap, ValuedFormat::u16, ValuedFormat::bitmap,
                                    ValuedFormat::full};
  ValuedFormat chosen = ValuedFormat::marked;
  std::size_t least = bound + 1;
  for (const ValuedFormat format : kFormats) {
    if (e.entry == nullptr && format < ValuedFormat::bitmap) continue;
    const std::size_t bytes = valued_bytes<T>(format, e, n);
    if (bytes <= bound && format == asked) return format;
    if (bytes < least) {
      chosen = format;
      least = bytes;
    }
  }
  return chosen;
}

// Values of entries one after the other, for who visits their positions. No value is 0.
template <class T, class Sink>
struct NextValue {
  Sink& sink;
  const std::byte* values;
  std::size_t i;
  bool zero;
  MQ_INLINE NextValue(Sink& to, const std::byte* from) : sink(to), values(from), i(0), zero(false) {}
  MQ_INLINE void operator()(std::size_t position, std::size_t) {
    const T value = element<T>(values, i++);
    zero |= value == T{0};
    sink(position, value);
  }
};

// The entries of a payload in format gap or u16, as visit_sparse does it; for decode_entries.
template <class T>
struct ValuedWalk {
  ValuedHeader header;
  const std::byte* payload;
  std::size_t n;
  template <class Sink>
  MQ_INLINE bool operator()(Sink& sink) const {
    const std::size_t count = header.count(), values = count * sizeof(T), bytes = header.payload_bytes;
    if (bytes < values) return false;
    NextValue<T, Sink> visit(sink, payload + (bytes - values));
    const bool valid = header.format() == ValuedFormat::gap
                           ? visit_gaps<false>(payload, bytes - values, count, n, visit)
                           : bytes - values == 2 * count && visit_positions(payload, count, n, visit);
    return valid && !visit.zero;
  }
};
