// Encodes a strictly ascending list of indices as bytes: a sequence of blocks. Each block has the format that
// is cheapest for it, and its header names the format (position_blocks.hpp).
//
// Size for n indices, where d is the local density:
//
//   d                              bytes     format
//   long runs                      almost 0  runs, full
//   more than 8 %                  n / (8 d) bitmap
//   0.5 % to 8 %                   about n   gap bytes
//   1 index in 2^18 to 0.5 %       2 n       u16
//   less                           4 n       u32
//
// A list never takes more than 8 n + 16 bytes, and never more than 4 n + 16 if all indices are less than 2^32
// above the origin. Reason: a block of up to 2^16 positions is made only if it saves 16 bytes compared with
// 4 n, its own 16-byte header included. So it also pays for one more header, of the wide block that it
// separates from the block before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mq::sparse {

// The largest size of a list of this many indices; and the same if every index is less than 2^32 above the
// origin.
inline constexpr std::size_t positions_bound(std::size_t count) { return count ? 8 * count + 16 : 0; }
inline constexpr std::size_t narrow_positions_bound(std::size_t count) { return count ? 4 * count + 16 : 0; }

// Writes the list to `wire`, which has room for the bound above. Returns the number of bytes written, 0 for
// an empty list. No index may be below `origin`, where blocks start counting. A slice of 2^16 positions that
// starts at `origin` fits in one block.
std::size_t encode_positions(std::span<const std::uint64_t> indices, std::byte* wire,
                             std::uint64_t origin = 0);

// Reads indices.size() indices, which must take exactly wire.size() bytes. Returns false if the bytes are not
// a strictly ascending list of that length in [low, high), with high <= 2^63; the indices are then
// unspecified. Never reads or writes outside the spans.
[[nodiscard]] bool decode_positions(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high,
                                    std::span<std::uint64_t> indices, std::uint64_t origin = 0);

}  // namespace mq::sparse
