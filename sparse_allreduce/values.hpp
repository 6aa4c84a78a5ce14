// Operations on values by position: combine values at mapped positions, or pick them from there. The
// functions work on bytes, so that the code that calls them needs no template over element type and
// operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sparse_allreduce/index_set.hpp"
#include "sparse_allreduce/index_union.hpp"
#include "sparse_allreduce/sparse.hpp"

namespace mq::sparse {

// All pointers are aligned to the element. Maps are strictly ascending unless the function says otherwise.

void fill_identity(const Entry& entry, std::byte* to, std::size_t count);
// to[map[k] - base] = to[map[k] - base] op from[k]
void combine(const Entry& entry, const std::byte* from, Map map, std::uint32_t base, std::byte* to);
// to[position[k]] = to[position[k]] op from[k], in ascending order of k; positions in any order.
void combine_any(const Entry& entry, const std::byte* from, Map position, std::byte* to);
// Returns the caller's values in the order of the set, with the values of duplicate indices combined in the
// order given. The result is in workspace memory, or is `values` itself if that is in order already. Throws
// std::bad_alloc.
const std::byte* in_order(const Entry& entry, const IndexSet& set, const std::byte* values,
                          Workspace& memory);
// to[k] = from[map[k] - base]
void pick(const Entry& entry, const std::byte* from, Map map, std::uint32_t base, std::byte* to);
// to[k] = from[position[k]]; positions in any order.
void pick_any(const Entry& entry, const std::byte* from, Map position, std::byte* to);
// to[k] = from[map[k]], or the operation's absent() where map[k] is kAbsent.
void pick_or_absent(const Entry& entry, const std::byte* from, Map map, std::byte* to);

}  // namespace mq::sparse
