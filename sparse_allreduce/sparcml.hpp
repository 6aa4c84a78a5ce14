// Streams of SparCML: interleaved (index, values) pairs, or a dense slice, with an explicit tag. They are a
// baseline for comparison; union_sparcml.hpp lists the differences from the publication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse_allreduce/frame.hpp"

namespace mq::sparse {

struct SparcmlShape {
  Entry entry;
  bool wide = false;      // 8-byte indices, for more than 2^32 positions; else 4-byte indices
  bool presence = false;  // dense slices carry a bitmap of present entries, because the result is a list
  std::size_t pair_bytes() const { return (wide ? 8 : 4) + entry.bytes(); }
};

// A sparse vector over a range: `count` pairs, or a dense slice.
struct SparcmlStream {
  bool dense = false;
  std::uint64_t count = 0;           // entries; for a dense slice only valid with presence
  std::span<std::byte> bytes;        // pairs or values
  std::span<std::uint64_t> present;  // of a dense slice with presence: one bit for each position
};

inline std::size_t presence_words(Range range) { return static_cast<std::size_t>(range.width() / 64 + 1); }
std::uint64_t sparcml_dense_bytes(const SparcmlShape& shape, Range range);

// Makes pairs of a list, or a dense slice if pairs are not shorter. This and all functions below throw
// std::bad_alloc.
SparcmlStream make_stream(const SparcmlShape& shape, const List& list, Range range, Workspace& memory);
SparcmlStream make_dense(const SparcmlShape& shape, const List& list, Range range, Workspace& memory);

// The sum of a and b, in this order: merged pairs, or a dense slice if the pairs might not be shorter.
SparcmlStream add_streams(const SparcmlShape& shape, const SparcmlStream& a, const SparcmlStream& b,
                          Range range, Workspace& memory);

// Conversion to a message and back. check_stream corresponds to check_frame.
void write_stream(const SparcmlStream& stream, Workspace& memory, Header& header,
                  std::span<const std::byte>& payload);
Status check_stream(const SparcmlShape& shape, const Header& header, Range range, int from);
Status read_stream(const SparcmlShape& shape, const Header& header, std::span<const std::byte> payload,
                   Range range, int from, Workspace& memory, SparcmlStream& stream);

// Converts a stream to indices and values. A dense slice must have presence.
void stream_to_list(const SparcmlShape& shape, const SparcmlStream& stream, Range range,
                    std::uint64_t* indices, std::byte* values);
// Writes the entries to their positions in the slice `values`; a dense slice fills it completely.
void stream_to_slice(const SparcmlShape& shape, const SparcmlStream& stream, Range range, std::byte* values);

}  // namespace mq::sparse
