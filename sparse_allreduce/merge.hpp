// Reduction of sorted lists of (index, values) on one rank: a left fold in the order of the lists, so that
// every way of merging gives the same bits. (NaN is NaN either way, but which of two NaNs a sum keeps is for
// the compiler to say, and whether a signalling NaN that only one list has is quieted depends on the way.)
//
// By lists: two at a time, the result with the next. Cost: an entry of each intermediate result. By segments:
// a dense accumulator for a stretch of positions that fits in the cache, into which each list is added, and a
// bitmap of what is there. Cost: an entry of each list, one of the result, and the words of the bitmap; or,
// where many positions are taken, the words of a bitmap for each list, which may be the one that came over
// the wire. So lists win where few positions are taken, segments otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse_allreduce/sparse.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

struct List {
  std::span<const std::uint64_t> indices;  // strictly ascending
  const std::byte* values = nullptr;       // stride of an element type for each, aligned for it
};

// One of the lists of a merge: its indices, or its positions as they are encoded, counted from the merge's
// `low`, or both, which are then the same.
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

// Entries that the result of merging has at most: lists of this many in all, with indices in [low, high).
std::size_t merge_room(std::span<const Operand> lists, std::uint64_t low, std::uint64_t high);

// What `automatic` means for these lists. lists need not be by lists where their number of entries is greater
// than high - low, since intermediate results would not have room.
MergeBy choose_merge(std::span<const Operand> lists, std::uint64_t low, std::uint64_t high);

// Merges lists with indices in [low, high) into `indices` and `values`, which overlap nothing and have room
// for merge_room entries; sets the number of entries. False: positions are malformed, and the result is
// unspecified. Throws std::bad_alloc.
[[nodiscard]] bool merge(const Entry& entry, std::span<const Operand> lists, std::uint64_t low,
                         std::uint64_t high, Workspace& memory, std::uint64_t* indices, std::byte* values,
                         std::size_t& count, MergeBy by = MergeBy::automatic);

}  // namespace mq::sparse
