// The arguments of onebit's kernels, and the data that they leave for each other in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.hpp"
#include "kernels/onebit/wire.hpp"

namespace mq::kernels::onebit {

// Shared memory for all warps of a thread block. Together with the memory that kernels declare themselves, it
// is less than the 48 KiB that a block may use on any GPU without permission.
inline constexpr std::uint32_t kSharedBytes = 47 << 10;
inline constexpr std::uint32_t kWarps = 4;  // of a thread block of encode, at most
inline constexpr std::uint32_t kDecodeWarps = 4;

struct EncodeBlocks {
  const std::byte* x;
  std::byte *residual, *wire;
  std::uint64_t n, blocks, bytes;  // bytes: of the wire
  DeviceEncoded* encoded;
  Cut cut;
  Feedback feedback;
  bool at_mean, keeps;  // keeps: there is a residual, used or not
  std::uint32_t room;   // elements in a warp's shared memory; a multiple of 32
};

// Size of a warp's shared memory: `room` elements, then the wire of a block of `room` elements, then 4 bytes.
// The wire is copied from there in whole words, for which the 4 bytes are needed.
template <class T>
MQ_HD constexpr std::uint32_t warp_bytes(std::uint32_t room) {
  return (room * static_cast<std::uint32_t>(sizeof(T)) + static_cast<std::uint32_t>(block_bytes<T>(room)) +
          4 + 15) /
         16 * 16;
}

struct DecodeBlocks {
  const std::byte *wire, *base;
  std::byte* x;
  std::uint64_t n, blocks;
  Cut cut;
  std::uint32_t* malformed;
};

// The sums of one piece of a block. If the piece is not finite, only its counts of non-finite values are
// valid.
struct PieceSums {
  double below, above;  // means
  std::uint32_t n_below, n_above;
  std::uint32_t nonfinite[3];  // -Inf, NaN, +Inf
  std::uint32_t finite;
};
enum class Outcome : std::uint32_t { finite, marked, again };
template <class T>
struct BlockMeans {
  T threshold;
  Outcome outcome;
  Means<T> means;
};
// Arguments of the steps, for long blocks or any blocks. Every launch handles all pieces or all blocks.
template <class T>
struct EncodePieces {
  EncodeBlocks blocks;
  std::uint64_t pieces;
  PieceSums* sums;
  BlockMeans<T>* means;
  bool second;  // measure and join: only blocks that are split at their means
};

// The pieces of the blocks, in the order of the vector.
struct Pieces {
  Cut cut;
  MQ_HD static constexpr std::size_t of(std::size_t length) { return (length + kSumPiece - 1) / kSumPiece; }
  MQ_HD constexpr std::size_t count(std::size_t n) const {
    const std::size_t both = cut.even + cut.odd, rest = n % both;
    const std::size_t even = rest < cut.even ? rest : cut.even;
    return n / both * (of(cut.even) + of(cut.odd)) + of(even) + of(rest - even);
  }
  MQ_HD constexpr std::size_t first(std::size_t block) const {
    return block / 2 * (of(cut.even) + of(cut.odd)) + (block % 2 == 0 ? 0 : of(cut.even));
  }
  MQ_HD constexpr std::size_t block_of(std::size_t piece) const {
    const std::size_t both = of(cut.even) + of(cut.odd);
    if (both == 2) return piece;  // avoids a division
    return piece / both * 2 + (piece % both < of(cut.even) ? 0 : 1);
  }
};

// Bytes of the wire before a block.
template <class T>
MQ_HD constexpr std::size_t wire_offset(const Cut& cut, std::size_t block) {
  return block / 2 * (block_bytes<T>(cut.even) + block_bytes<T>(cut.odd)) +
         (block % 2 == 0 ? 0 : block_bytes<T>(cut.even));
}

}  // namespace mq::kernels::onebit
