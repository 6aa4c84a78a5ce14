// The payload format of a message that carries a sparse vector over a range of indices.
//
// A payload holds the values, then the positions (positions.hpp) counted from the start of the range, then up
// to 7 bytes of padding to a multiple of 8. The positions tell where the entries are. If they would make the
// payload longer than the dense vector, the positions of the holes are sent instead. A hole takes at most 4
// bytes, and the value that it saves takes at least 4. So a payload is at most kFrameExtra bytes longer than
// the dense vector. This bound holds for ranges of fewer than 2^32 positions; for longer ranges, the payload
// may exceed the dense vector by 1/64 more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/merge.hpp"

namespace mq::sparse {

inline constexpr std::size_t kFrameExtra = 16 + 7;  // the header of one block of positions, and the padding

enum class FrameFormat : std::uint32_t { list, holes };

// Indices [low, high).
struct Range {
  std::uint64_t low = 0, high = 0;
  std::uint64_t width() const { return high - low; }
};

// Size of the dense vector in bytes; 2^63 if it is larger.
std::uint64_t dense_bytes(const Entry& entry, std::uint64_t width);

// Size of the longest payload in bytes.
std::uint64_t frame_limit(const Entry& entry, std::uint64_t width);

// Size of the buffer that write_frame needs for a list of `count` entries.
inline std::size_t frame_room(const Entry& entry, std::size_t count) {
  return count * (entry.bytes() + 8) + 16 + 16;
}

// Writes the payload to `wire`, which has room for frame_room() bytes. The values may already be at the start
// of `wire`. Sets the format, counts and payload_bytes of the header. Throws std::bad_alloc.
void write_frame(const Entry& entry, const List& list, Range range, Workspace& memory, std::byte* wire,
                 Header& header);

// Checks whether write_frame can have produced a header with these counts. Call it before you allocate memory
// for the payload.
Status check_frame(const Entry& entry, const Header& header, Range range, int from);

// The encoded positions in a payload whose header passed check_frame.
inline std::span<const std::byte> positions_of(const Header& header, std::span<const std::byte> payload,
                                               const Entry& entry) {
  return payload.subspan(header.counts[0] * entry.bytes(), header.counts[1]);
}

// Decodes the indices of a payload whose header passed check_frame. `indices` has header.counts[0] elements.
// The values are at the start of the payload. Throws std::bad_alloc.
Status read_frame(const Header& header, std::span<const std::byte> payload, const Entry& entry, Range range,
                  int from, Workspace& memory, std::span<std::uint64_t> indices);

}  // namespace mq::sparse
