// Streams of SparCML: interleaved (index, values) pairs, or a dense slice, with an explicit tag; see
// union_sparcml.hpp. A baseline: kept as published, apart from the tags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse_allreduce/frame.hpp"

namespace mq::sparse {

struct SparcmlShape {
  Entry entry;
  bool wide = false;      // indices of 8 bytes, for more than 2^32; else of 4
  bool presence = false;  // a bitmap of what is present comes with dense slices, since the result is a list
  std::size_t pair_bytes() const { return (wide ? 8 : 4) + entry.bytes(); }
};

// A sparse vector over a range: count pairs, or the slice.
struct SparcmlStream {
  bool dense = false;
  std::uint64_t count = 0;           // entries; of a dense slice only where presence is kept
  std::span<std::byte> bytes;        // pairs or values
  std::span<std::uint64_t> present;  // of a dense slice with presence: a bit for each position
};

inline std::size_t presence_words(Range range) { return static_cast<std::size_t>(range.width() / 64 + 1); }
std::uint64_t sparcml_dense_bytes(const SparcmlShape& shape, Range range);

// A list as pairs, or as a dense slice where pairs are no shorter. Throws std::bad_alloc, as all below.
SparcmlStream make_stream(const SparcmlShape& shape, const List& list, Range range, Workspace& memory);
SparcmlStream make_dense(const SparcmlShape& shape, const List& list, Range range, Workspace& memory);

// The sum of a and b, in this order: merged pairs, or a dense slice if pairs might be no shorter than that.
SparcmlStream add_streams(const SparcmlShape& shape, const SparcmlStream& a, const SparcmlStream& b,
                          Range range, Workspace& memory);

// As a message, and back; check_stream as check_frame.
void write_stream(const SparcmlStream& stream, Workspace& memory, Header& header,
                  std::span<const std::byte>& payload);
Status check_stream(const SparcmlShape& shape, const Header& header, Range range, int from);
Status read_stream(const SparcmlShape& shape, const Header& header, std::span<const std::byte> payload,
                   Range range, int from, Workspace& memory, SparcmlStream& stream);

// Entries to indices and values; a dense slice must have presence.
void stream_to_list(const SparcmlShape& shape, const SparcmlStream& stream, Range range,
                    std::uint64_t* indices, std::byte* values);
// Entries to their places in the slice `values`; a dense slice is all of it.
void stream_to_slice(const SparcmlShape& shape, const SparcmlStream& stream, Range range, std::byte* values);

}  // namespace mq::sparse
