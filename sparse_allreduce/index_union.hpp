// Merges sorted lists of indices into their union, and records where each index stands in the union.
#pragma once

#include <cstdint>
#include <span>

#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

using Indices = std::span<const std::uint64_t>;
using Map = std::span<const std::uint32_t>;

inline constexpr std::uint32_t kAbsent = 0xffffffff;
inline constexpr std::size_t kMostIndices = 0xfffffffe;  // of one list: positions have 32 bits

// Returns the union of strictly ascending lists. maps[i] has lists[i].size() elements; maps[i][k] becomes the
// position of lists[i][k] in the union.
//
// The lists are merged in a tree of two-way merges, so each index is read log2(lists) times. The result and
// intermediate results are in memory of `scratch`. If the union might have more than kMostIndices indices,
// the result is a span of kMostIndices + 1 elements, which must not be read. Throws std::bad_alloc.
Indices index_union(std::span<const Indices> lists, std::span<const std::span<std::uint32_t>> maps,
                    Workspace& scratch);

// positions[k] becomes the position of wanted[k] in `list`, or kAbsent.
void locate(Indices wanted, Indices list, std::span<std::uint32_t> positions);

}  // namespace mq::sparse
