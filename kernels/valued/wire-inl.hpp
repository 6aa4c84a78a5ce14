// The wire of codecs that send a few elements of a block with their values: the positions in the smallest of
// several formats, then the values. It is independent of how the elements were chosen. Included once per
// instruction set, after valued/format-inl.hpp and ternary/wire-inl.hpp, whose functions for gaps and
// positions it uses.
//
// Wire, per block: ValuedHeader, then the payload. An *entry* is an element that is sent: a selected or a
// non-finite one. Size of the payload in bytes for c entries of S bytes each in a block of n:
//
//   gap     c + skips (at most n / 255) + c S: one byte per entry, the distance to the previous one; put_gaps
//   u16     2 c + c S: positions, ascending
//   bitmap  n / 8 + c S: one bit per element
//   full    n S: all elements; those that are not sent are +0, and no entry is 0
//   marked  S + 2 n / 8 + c S: one value for all non-finite elements, a bitmap of them, and a bitmap of the c
//           other entries. Used if a block has so many non-finite elements that every other format exceeds
//           the bound
//
// The encoder chooses the smallest format. No payload is longer than full, or than marked with the largest
// number of elements that the codec selects, whichever is shorter. This is the bound of the wire.
#pragma once
#include "kernels/ternary/wire-inl.hpp"

inline constexpr std::array<std::string_view, 4> kValuedFormats{"auto", "gap", "u16", "bitmap"};

// Reads the values of entries in sequence while their positions are visited. No value may be 0.
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

// Visits the entries of a payload in format gap or u16, like visit_sparse. For decode_entries.
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
