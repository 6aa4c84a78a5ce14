// A lossless stage behind the codecs whose codes have a fixed number of bits: a piece of codes, as symbols of
// a byte, becomes four streams of a prefix code.
//
// A packed piece is a byte that names the table (1 to kTables), the lengths in bytes of the four streams (16
// bits each), and the streams. Stream s has the symbols s q to (s + 1) q - 1 of n, q = n / 4 rounded up. Bits
// fill bytes from the lowest one on; those behind the last symbol are 0. There are four streams because a
// decode of one alone waits for its own table most of the time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/entropy/tables.hpp"

namespace mq::kernels::entropy {

inline constexpr std::size_t kMostSymbols = 4096, kStreams = 4, kHead = 1 + 2 * kStreams;
// Bytes that pack may write.
inline constexpr std::size_t kPackRoom = kHead + kMostSymbols * kMaxBits / 8 + kStreams + 8;

// Packs n symbols, by the table that takes the fewest bits for a sample of them. Returns the bytes written; 0
// if the sample says that they would not be fewer than `limit`. They may be more than that all the same.
std::size_t pack(const Tables& tables, const std::uint8_t* symbols, std::size_t n, std::size_t limit,
                 std::byte* to) noexcept;

// Unpacks n symbols from the first of `available` bytes. Returns the bytes that were read; 0 if pack cannot
// have written them. Nothing outside of the available bytes is read.
std::size_t unpack(const Tables& tables, const std::byte* from, std::size_t available, std::size_t n,
                   std::uint8_t* symbols) noexcept;

}  // namespace mq::kernels::entropy
