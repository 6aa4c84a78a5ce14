// How a vector is cut: segments, in each of them the plan's chunks, everything in whole blocks of the codec.
// Pure arithmetic, separate from the executor so that it can be tested up to 2^63 elements without memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/codec.hpp"

namespace mq {

// A chunk is worked on from the L2 cache: input, residual and output of 64 Ki floats are 768 KiB. Vectors
// that are cut into many have longer ones, up to twice as long: fewer messages, and launches on a GPU, while
// the scratch memory of the segments in flight stays a small part of the vector. Chunks of 1 MiB save another
// 5 % over shared memory, but cost a fifth over 1 Gbit/s (one-bit, 64 MiB, 2 ranks).
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10, kLongChunkBytes = 2 * kChunkBytes,
                             kManySegments = 64;
constexpr std::size_t chunk_bytes(std::size_t count, std::size_t chunks, std::size_t element_bytes) {
  return std::clamp(count / (chunks * kManySegments) * element_bytes, kChunkBytes, kLongChunkBytes);
}

struct Range {
  std::size_t begin = 0, n = 0;  // elements
};

class Layout {
 public:
  // count elements, cut for a plan of `chunks` chunks; block is the codec's, element_bytes > 0. whole: one
  // segment, however long its chunks become (kernels::Codec::whole).
  Layout(std::size_t count, int chunks, std::size_t block, std::size_t element_bytes, bool whole = false)
      : count_(count), chunks_(static_cast<std::size_t>(chunks)), block_(block) {
    const std::size_t chunk_blocks =
        std::max<std::size_t>(1, chunk_bytes(count, chunks_, element_bytes) / element_bytes / block);
    blocks_ = parts_of(count, block);
    segments_ = whole ? 1 : std::max<std::size_t>(1, parts_of(blocks_, chunk_blocks * chunks_));
  }
  std::size_t segments() const { return segments_; }
  Range chunk(std::size_t segment, std::size_t chunk) const {
    const std::size_t first = share(blocks_, segments_, segment),
                      end = share(blocks_, segments_, segment + 1);
    const std::size_t begin = element(first + share(end - first, chunks_, chunk));
    return {begin, element(first + share(end - first, chunks_, chunk + 1)) - begin};
  }
  // No chunk is longer.
  std::size_t max_chunk() const {
    return std::min(count_, parts_of(parts_of(blocks_, segments_), chunks_) * block_);
  }

 private:
  // How many parts of `size` cover `whole`.
  static std::size_t parts_of(std::size_t whole, std::size_t size) {
    return whole / size + (whole % size != 0);
  }
  // The first `part` of `parts` nearly equal parts of `whole`, without overflow.
  static std::size_t share(std::size_t whole, std::size_t parts, std::size_t part) {
    return whole / parts * part + std::min(part, whole % parts);
  }
  std::size_t element(std::size_t block) const { return block >= blocks_ ? count_ : block * block_; }
  std::size_t count_, chunks_, block_, blocks_ = 0, segments_ = 1;
};

}  // namespace mq
