// Merges sorted lists of (index, values) on one rank. Values are combined as a left fold in the order of the
// lists, so every way of merging gives the same bits. There are two exceptions. The compiler decides which of
// two NaNs a sum keeps. And if only one list has a signalling NaN, it depends on the way of merging whether
// it becomes quiet.
//
// There are two ways of merging:
//
// - By lists: merges two lists, then the result with the next list. The cost is an entry of every
//   intermediate result.
// - By segments: adds each list to a dense accumulator for a range of positions that fits in the cache, and
//   marks present entries in a bitmap. The cost is an entry of each list, an entry of the result, and the
//   words of the bitmap. If a list occupies many of the positions, its cost is the words of a bitmap instead
//   of its entries; this bitmap may be the received one.
//
// So merging by lists is faster if few positions are occupied, and merging by segments otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse_allreduce/sparse.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

struct List {
  std::span<const std::uint64_t> indices;  // strictly ascending
  const std::byte* values = nullptr;       // stride values for each index, aligned for the element type
};

// An input list of a merge. It has its indices, or its encoded positions counted from the merge's `low`, or
// both; then they must agree.
struct Operand {
  std::size_t count = 0;
  std::span<const std::uint64_t> indices;
  std::span<const std::byte> positions;
  const std::byte* values = nullptr;

  Operand() = default;
  Operand(const List& list) : count(list.indices.size()), indices(list.indices), values(list.values) {}
  Operand(std::size_t n, std::span<const std::byte> encoded, const std::byte* its_values)
      : count(n), positions(encoded), values(its_values) {}
  bool listed() const { return count > 0 ? indices.size() == count : positions.empty(); }
};

enum class MergeBy : std::uint8_t { automatic, lists, segments };

// Largest possible number of entries in the result of merging these lists, whose indices are in [low, high).
std::size_t merge_room(std::span<const Operand> lists, std::uint64_t low, std::uint64_t high);

// The way of merging that `automatic` selects. If the lists have more than high - low entries in total, only
// segments are possible, because intermediate results would not fit.
MergeBy choose_merge(std::span<const Operand> lists, std::uint64_t low, std::uint64_t high);

// Merges lists with indices in [low, high) into `indices` and `values`, and sets `count`. The outputs have
// room for merge_room entries and overlap no input. False: positions are malformed, and the result is
// unspecified. Throws std::bad_alloc.
[[nodiscard]] bool merge(const Entry& entry, std::span<const Operand> lists, std::uint64_t low,
                         std::uint64_t high, Workspace& memory, std::uint64_t* indices, std::byte* values,
                         std::size_t& count, MergeBy by = MergeBy::automatic);

}  // namespace mq::sparse
