// A sparse vector over a range of indices as the payload of a message, never longer than the dense vector by
// more than kFrameExtra bytes: values, then positions (positions.hpp) counted from the start of the range,
// then up to 7 bytes that make it a multiple of 8. The positions are those of the entries, or, where that
// takes more than a dense vector, of the holes between them: 4 bytes at most for each, which a missing value
// makes up for. (Only among less than 2^32 positions; for more, the excess may be 1/64 of the dense vector.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/merge.hpp"

namespace mq::sparse {

inline constexpr std::size_t kFrameExtra =
    16 + 7;  // the head of a block of positions, and to a multiple of 8

enum class FrameFormat : std::uint32_t { list, holes, pairs, dense };  // pairs, dense: see union_sparcml.hpp

// Indices [low, high).
struct Range {
  std::uint64_t low = 0, high = 0;
  std::uint64_t width() const { return high - low; }
};

// Bytes of the dense vector; 2^63 if it is more.
std::uint64_t dense_bytes(const Entry& entry, std::uint64_t width);

// Bytes of the longest frame.
std::uint64_t frame_limit(const Entry& entry, std::uint64_t width);

// What write_frame needs in place, of a list of this many entries.
inline std::size_t frame_room(const Entry& entry, std::size_t count) {
  return count * (entry.bytes() + 8) + 16 + 16;
}

// Writes the frame to wire, which has room for frame_room(); its first bytes may be the values already. Sets
// the header's format, counts and payload_bytes. Throws std::bad_alloc.
void write_frame(const Entry& entry, const List& list, Range range, Workspace& memory, std::byte* wire,
                 Header& header);

// Whether write_frame may have written a header with these counts: to be asked before memory is taken for the
// payload.
Status check_frame(const Entry& entry, const Header& header, Range range, int from);

// The encoded positions of a frame whose header passed check_frame.
inline std::span<const std::byte> positions_of(const Header& header, std::span<const std::byte> payload,
                                               const Entry& entry) {
  return payload.subspan(header.counts[0] * entry.bytes(), header.counts[1]);
}

// Reads the indices of a frame whose header passed check_frame; header.counts[0] of them. Values are at the
// start of the payload. Throws std::bad_alloc.
Status read_frame(const Header& header, std::span<const std::byte> payload, const Entry& entry, Range range,
                  int from, Workspace& memory, std::span<std::uint64_t> indices);

}  // namespace mq::sparse
