// Reads an encoded list of positions (positions.hpp) block by block, for callers that can use a block without
// decoding it.
#pragma once

#include <span>

#include "sparse_allreduce/position_blocks.hpp"

namespace mq::sparse {

struct PositionBlock {
  blocks::Format format{};
  std::size_t count = 0;  // number of indices, > 0
  const std::byte* body = nullptr;
  std::uint32_t extra = 0;
  std::uint64_t base = 0;  // first position of the first segment

  // Only for a bitmap.
  std::size_t words() const { return (extra >> 16) + 1; }
  std::uint64_t first_position() const { return base + (extra & 0xffff) * 64; }
};

// Accepts exactly the lists that decode_positions accepts.
class PositionReader {
 public:
  // For a list of `count` indices in [low, high).
  PositionReader(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high, std::size_t count,
                 std::uint64_t origin)
      : wire_(wire), low_(low < origin ? origin : low), high_(high), left_(count), origin_(origin) {}

  // Whether every byte and every index was read.
  bool done() const { return wire_.empty() && left_ == 0; }
  // Gets the next block. The caller must then check it with read() or accept_bitmap(). False: malformed, or
  // no block is left.
  [[nodiscard]] bool next(PositionBlock& block);
  // Decodes and checks the indices of a block. `out` has room for block.count of them. False: malformed.
  [[nodiscard]] bool read(const PositionBlock& block, std::uint64_t* out);
  // Checks a bitmap block that the caller uses without decoding it.
  [[nodiscard]] bool accept_bitmap(const PositionBlock& block);

 private:
  // Checks the first and the last index of a block whose indices ascend.
  bool accept(std::uint64_t front, std::uint64_t back);

  std::span<const std::byte> wire_;
  std::uint64_t low_, high_;  // bounds of the next index
  std::size_t left_;
  std::uint64_t origin_;
};

}  // namespace mq::sparse
