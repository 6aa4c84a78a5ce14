// How a vector is cut: into segments, and each segment into the plan's chunks. All cuts are at whole blocks
// of the codec. This is pure arithmetic, apart from the executor, so that it can be tested up to 2^63
// elements without memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codec.hpp"

namespace mq {

// How long a chunk is at most. Each chunk is a message of its own and a codec call of its own, so chunks
// should be long; encoding, sending and decoding of segments overlap, so segments should be many. Chunks of
// 512 KiB are longer than what fits into most L2 caches, and still faster than chunks of 256 KiB
// (results/2026-11-29-chunks). Chunks of 1 MiB cost onebit a fifth over 1 Gbit/s.
inline constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
// Where all ranks wait for what comes from a root or goes to it, a segment passes from rank to rank, and more
// of them matter most. So chunks are shorter until there are so many segments.
inline constexpr std::size_t kRootedChunkBytes = std::size_t{256} << 10, kManySegments = 64;
constexpr std::size_t rooted_chunk_bytes(std::size_t count, std::size_t chunks, std::size_t element_bytes) {
  return std::clamp(count / (chunks * kManySegments) * element_bytes, kRootedChunkBytes, kChunkBytes);
}

struct Range {
  std::size_t begin = 0, n = 0;  // elements
};

class Layout {
 public:
  // Cuts count elements for a plan of `chunks` chunks. `block` is the codec's, and element_bytes > 0. With
  // `whole` there is one segment, however long its chunks become (kernels::Codec::whole). rooted: of
  // a collective with a root.
  Layout(std::size_t count, int chunks, std::size_t block, std::size_t element_bytes, bool whole = false,
         bool rooted = false)
      : count_(count), chunks_(static_cast<std::size_t>(chunks)), block_(block) {
    const std::size_t chunk_blocks = blocks_of_chunk(
        block, element_bytes, rooted ? rooted_chunk_bytes(count, chunks_, element_bytes) : kChunkBytes);
    blocks_ = parts_of(count, block);
    segments_ = whole ? 1 : std::max<std::size_t>(1, parts_of(blocks_, chunk_blocks * chunks_));
  }
  // Chunk p of all segments is part p of the vector, which ends before element ends[p] and begins with a new
  // block. ends must outlive the layout.
  Layout(std::span<const std::size_t> ends, std::size_t block, std::size_t element_bytes, bool whole = false)
      : count_(ends.back()), chunks_(ends.size()), block_(block), ends_(ends) {
    for (std::size_t p = 0; p < chunks_; ++p) longest_ = std::max(longest_, part(p).n);
    const std::size_t chunk_blocks = blocks_of_chunk(block, element_bytes);
    blocks_ = parts_of(longest_, block);
    segments_ = whole ? 1 : std::max<std::size_t>(1, parts_of(blocks_, chunk_blocks));
  }
  // Cuts several vectors that follow each other. Vector i ends before element ends[i], and the next one
  // begins with a new block. A chunk may hold elements of several vectors. The lengths of two
  // chunks differ by less than two blocks. ends must outlive the layout.
  Layout(std::span<const std::size_t> ends, int chunks, std::size_t block, std::size_t element_bytes,
         bool whole)
      : count_(ends.back()), chunks_(static_cast<std::size_t>(chunks)), block_(block), vectors_(ends) {
    const std::size_t chunk_blocks = blocks_of_chunk(block, element_bytes);
    segments_ = whole ? 1 : std::max<std::size_t>(1, parts_of(count_, chunk_blocks * block * chunks_));
  }
  std::size_t segments() const { return segments_; }
  Range part(std::size_t p) const {
    const std::size_t begin = p == 0 ? 0 : ends_[p - 1];
    return {begin, ends_[p] - begin};
  }
  Range chunk(std::size_t segment, std::size_t chunk) const {
    if (!ends_.empty()) {
      const Range of = part(chunk);
      const std::size_t begin = begin_in(of, segment);
      return {of.begin + begin, begin_in(of, segment + 1) - begin};
    }
    if (!vectors_.empty()) {
      const std::size_t begin = cut(segment * chunks_ + chunk);
      return {begin, cut(segment * chunks_ + chunk + 1) - begin};
    }
    const std::size_t first = share(blocks_, segments_, segment),
                      end = share(blocks_, segments_, segment + 1);
    const std::size_t begin = element(first + share(end - first, chunks_, chunk));
    return {begin, element(first + share(end - first, chunks_, chunk + 1)) - begin};
  }
  // The number of a chunk's first element for random numbers (kernels::NoiseIndex::index): a multiple of the
  // block, and no element of another chunk has it.
  std::size_t index(std::size_t segment, std::size_t chunk) const {
    if (ends_.empty()) return this->chunk(segment, chunk).begin;
    const Range of = part(chunk);
    return (of.begin / block_ + chunk + share(parts_of(of.n, block_), segments_, segment)) * block_;
  }
  // The same for an element of one of several vectors at which a block begins.
  std::size_t index_in(std::size_t vector, std::size_t element) const {
    const std::size_t first = vector == 0 ? 0 : vectors_[vector - 1];
    return (first / block_ + vector + (element - first) / block_) * block_;
  }
  // Calls f(vector, its elements in the range) for each of several vectors that has any there.
  template <class F>
  void for_each_vector(Range range, const F& f) const {
    const std::size_t end = range.begin + range.n;
    std::size_t begin = range.begin;
    for (std::size_t vector = vector_at(begin); begin < end; ++vector) {
      const std::size_t n = std::min(vectors_[vector], end) - begin;
      if (n > 0) f(vector, Range{begin, n});
      begin += n;
    }
  }
  // Calls f(chunk) once for each chunk that has elements of several vectors, in the order of the chunks. It
  // looks once at each vector and at no chunk that one vector fills.
  template <class F>
  void for_each_shared_chunk(const F& f) const {
    const std::size_t all = segments_ * chunks_;
    std::size_t last = all;  // the chunk in which the vector before ended; the ends ascend
    for (const std::size_t end : vectors_) {
      if (end == 0 || end == count_) continue;
      const std::size_t number = part_with(count_, all, end - 1);
      if (number == last) continue;
      last = number;
      const std::size_t begin = cut(number);
      if (const std::size_t next = cut(number + 1); next > end) f(Range{begin, next - begin});
    }
  }
  // The length of the longest chunk, or, of several vectors, a bound of it.
  std::size_t max_chunk() const {
    if (!ends_.empty()) return std::min(longest_, parts_of(blocks_, segments_) * block_);
    if (!vectors_.empty()) return std::min(count_, parts_of(count_, segments_ * chunks_) + block_);
    return std::min(count_, parts_of(parts_of(blocks_, segments_), chunks_) * block_);
  }

 private:
  // How many blocks a chunk has at most.
  static std::size_t blocks_of_chunk(std::size_t block, std::size_t element_bytes,
                                     std::size_t chunk_bytes = kChunkBytes) {
    return std::max<std::size_t>(1, chunk_bytes / element_bytes / block);
  }
  // How many parts of length `size` cover `whole`.
  static std::size_t parts_of(std::size_t whole, std::size_t size) {
    return whole / size + (whole % size != 0);
  }
  // Where part number `part` begins, if `whole` is cut into `parts` nearly equal parts. Does not overflow.
  static std::size_t share(std::size_t whole, std::size_t parts, std::size_t part) {
    return whole / parts * part + std::min(part, whole % parts);
  }
  // The part in which element `at` is.
  static std::size_t part_with(std::size_t whole, std::size_t parts, std::size_t at) {
    const std::size_t least = whole / parts, longer = whole % parts, end_of_longer = longer * (least + 1);
    return at < end_of_longer ? at / (least + 1) : longer + (at - end_of_longer) / least;
  }
  // Where a segment begins in a part.
  std::size_t begin_in(Range part, std::size_t segment) const {
    return std::min(part.n, share(parts_of(part.n, block_), segments_, segment) * block_);
  }
  // The first of several vectors that ends behind this element.
  std::size_t vector_at(std::size_t element) const {
    return static_cast<std::size_t>(std::upper_bound(vectors_.begin(), vectors_.end(), element) -
                                    vectors_.begin());
  }
  // Where a chunk of several vectors begins, by its number in all segments: at the block in which its equal
  // share of all elements begins. So the last element of a vector is in the chunk in whose share it is.
  std::size_t cut(std::size_t chunk) const {
    const std::size_t near = share(count_, segments_ * chunks_, chunk), vector = vector_at(near);
    if (vector == vectors_.size()) return count_;
    const std::size_t first = vector == 0 ? 0 : vectors_[vector - 1];
    return first + (near - first) / block_ * block_;
  }
  std::size_t element(std::size_t block) const { return block >= blocks_ ? count_ : block * block_; }
  std::size_t count_, chunks_, block_, blocks_ = 0, segments_ = 1, longest_ = 0;
  std::span<const std::size_t> ends_;     // empty: all chunks are cut alike
  std::span<const std::size_t> vectors_;  // empty: there is one
};

}  // namespace mq
