// Unions of sorted lists, and where each list's indices stand in them.
#pragma once

#include <cstdint>
#include <span>

#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

using Indices = std::span<const std::uint64_t>;
using Map = std::span<const std::uint32_t>;

inline constexpr std::uint32_t kAbsent = 0xffffffff;
inline constexpr std::size_t kMostIndices = 0xfffffffe;  // of a list: positions have 32 bits

// The union of strictly ascending lists; maps[i][k] becomes the position of lists[i][k] in it, and maps[i]
// has lists[i].size() places. A tree of two-way merges: each index is looked at log2(lists) times. Memory of
// the result and of what is in between is scratch's; a union of more than kMostIndices is reported by a
// result of that many indices and one more, which must not be used. Throws std::bad_alloc.
Indices unite(std::span<const Indices> lists, std::span<const std::span<std::uint32_t>> maps,
              Workspace& scratch);

// positions[k]: of wanted[k] in list, or kAbsent.
void locate(Indices wanted, Indices list, std::span<std::uint32_t> positions);

}  // namespace mq::sparse
