// An encoded list of positions (positions.hpp) block by block, for who can use a block as it is.
#pragma once

#include <span>

#include "sparse_allreduce/position_blocks.hpp"

namespace mq::sparse {

struct PositionBlock {
  blocks::Format format{};
  std::size_t count = 0;  // indices, > 0
  const std::byte* body = nullptr;
  std::uint32_t extra = 0;
  std::uint64_t base = 0;  // of its first segment

  // Of a bitmap.
  std::size_t words() const { return (extra >> 16) + 1; }
  std::uint64_t first_position() const { return base + (extra & 0xffff) * 64; }
};

// Accepts what decode_positions accepts, and nothing else.
class PositionReader {
 public:
  // A list of `count` indices in [low, high).
  PositionReader(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high, std::size_t count,
                 std::uint64_t origin)
      : wire_(wire), low_(low < origin ? origin : low), high_(high), left_(count), origin_(origin) {}

  // Whether every byte and every index was read.
  bool done() const { return wire_.empty() && left_ == 0; }
  // The next block, of which read() or accept() must say whether it is sound. False: malformed, or the end.
  [[nodiscard]] bool next(PositionBlock& block);
  // Its indices; out has room for block.count.
  [[nodiscard]] bool read(const PositionBlock& block, std::uint64_t* out);
  // For who uses a bitmap as it is.
  [[nodiscard]] bool accept_bitmap(const PositionBlock& block);

 private:
  // Indices of the next block, which ascend, from the first to the last.
  bool accept(std::uint64_t front, std::uint64_t back);

  std::span<const std::byte> wire_;
  std::uint64_t low_, high_;  // of what comes next
  std::size_t left_;
  std::uint64_t origin_;
};

}  // namespace mq::sparse
