// What onebit's kernels are given, and leave for each other in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.hpp"
#include "kernels/onebit.hpp"

namespace mq::kernels::onebit {

// Shared memory that warps of a thread block share among them: with what kernels declare themselves less than
// the 48 KiB that a block may have on any GPU without being allowed more.
inline constexpr std::uint32_t kSharedBytes = 47 << 10;
inline constexpr std::uint32_t kWarps = 4;  // of a thread block of encode, at most

struct EncodeBlocks {
  const std::byte* x;
  std::byte *residual, *wire;
  std::uint64_t n, blocks, bytes;  // bytes: of the wire
  DeviceEncoded* encoded;
  Cut cut;
  Feedback feedback;
  bool at_mean, keeps;  // keeps: there is a residual, used or not
  std::uint32_t room;   // elements that a warp has shared memory for; a multiple of 32
};

// A warp's shared memory: `room` elements, then the wire of a block of as many, to be moved from there in
// whole words; 4 bytes more for what copies them.
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

// Sums of one piece of a block. Of one that is not finite, only which values it has.
struct PieceSums {
  double below, above;  // means
  std::uint32_t n_below, n_above;
  std::uint32_t nonfinite[3];  // -Inf, NaN, +Inf
  std::uint32_t finite;
};
enum class Verdict : std::uint32_t { finite, marked, again };
template <class T>
struct BlockMeans {
  T threshold;
  Verdict verdict;
  Means<T> means;
};
// Long blocks, or any blocks in steps: every launch takes all pieces or all blocks.
template <class T>
struct EncodePieces {
  EncodeBlocks blocks;
  std::uint64_t pieces;
  PieceSums* sums;
  BlockMeans<T>* means;
  bool second;  // measure, join: of the blocks that are split at their means
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
    if (both == 2) return piece;  // without a division
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
