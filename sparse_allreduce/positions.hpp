// A strictly ascending list of indices as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mq::sparse {

// Bytes that a list of this many indices takes at most.
std::size_t positions_bound(std::size_t count);

// Writes the list to wire, which has room for positions_bound; gives the bytes written. 0 for an empty list.
std::size_t encode_positions(std::span<const std::uint64_t> indices, std::byte* wire);

// Reads indices.size() indices that take exactly wire.size() bytes. False if the bytes are anything but a
// strictly ascending list of that length within [low, high); indices are unspecified then. Never reads or
// writes outside the spans.
[[nodiscard]] bool decode_positions(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high,
                                    std::span<std::uint64_t> indices);

}  // namespace mq::sparse
