// The wire of codecs that send a few elements of a block with their values: where these stand, in the
// smallest of a few formats, then the values. Separate because it knows nothing of how they were chosen.
// Included once per instruction set, after codecs/valued_format-inl.hpp and ternary_wire-inl.hpp, whose gaps
// and positions it writes.
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

inline constexpr std::array<std::string_view, 4> kValuedFormats{"auto", "gap", "u16", "bitmap"};

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
