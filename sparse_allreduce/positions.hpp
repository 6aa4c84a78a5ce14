// A strictly ascending list of indices as bytes: a sequence of blocks, each in the format that is cheapest
// for it and says so (position_blocks.hpp).
//
// Bytes for n indices with density d among their neighbours: about n for d from 0.5 % to 8 % (gap bytes), 2 n
// below that and down to 1 index in 2^18 positions (u16), 4 n below that (u32), n / (8 d) above (bitmap),
// next to nothing for long runs. Never more than 8 n + 16; never more than 4 n + 16 where all are less than
// 2^32 from the origin. Why: a block of up to 2^16 positions is made only where it saves 16 bytes over 4 n,
// header of 16 bytes included, and so pays for the header of the block of wide indices that it separates from
// the one before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mq::sparse {

// Bytes that a list of this many indices takes at most, and if none is 2^32 or more above the origin.
inline constexpr std::size_t positions_bound(std::size_t count) { return count ? 8 * count + 16 : 0; }
inline constexpr std::size_t narrow_positions_bound(std::size_t count) { return count ? 4 * count + 16 : 0; }

// Writes the list to wire, which has room for the bound; gives the bytes written. 0 for an empty list. No
// index is below origin, from which blocks are counted: with that of a slice, one of 2^16 positions is one
// block.
std::size_t encode_positions(std::span<const std::uint64_t> indices, std::byte* wire,
                             std::uint64_t origin = 0);

// Reads indices.size() indices that take exactly wire.size() bytes. False if the bytes are anything but a
// strictly ascending list of that length within [low, high), high <= 2^63; indices are unspecified then.
// Never reads or writes outside the spans.
[[nodiscard]] bool decode_positions(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high,
                                    std::span<std::uint64_t> indices, std::uint64_t origin = 0);

}  // namespace mq::sparse
