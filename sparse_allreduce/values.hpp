// What is done to values, by position: combined where maps say, picked where maps say. One function for each
// of these, over bytes, so that schedules are not templates of the element type and the operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sparse_allreduce/index_set.hpp"
#include "sparse_allreduce/sparse.hpp"
#include "sparse_allreduce/unite.hpp"

namespace mq::sparse {

// All pointers are aligned to the element. Maps are strictly ascending unless said otherwise.

void fill_identity(const Entry& entry, std::byte* to, std::size_t count);
// to[map[k] - base] = to[map[k] - base] op from[k]
void combine(const Entry& entry, const std::byte* from, Map map, std::uint32_t base, std::byte* to);
// to[place[k]] = to[place[k]] op from[k], in ascending order of k, in any order of places
void combine_any(const Entry& entry, const std::byte* from, Map place, std::byte* to);
// The caller's values in the order of the set, those of duplicates combined as they stand: in memory of the
// workspace, or `values` themselves where they are in that order. Throws std::bad_alloc.
const std::byte* in_order(const Entry& entry, const IndexSet& set, const std::byte* values,
                          Workspace& memory);
// to[k] = from[map[k] - base]
void pick(const Entry& entry, const std::byte* from, Map map, std::uint32_t base, std::byte* to);
// to[k] = from[place[k]], in any order of places
void pick_any(const Entry& entry, const std::byte* from, Map place, std::byte* to);
// to[k] = from[map[k]], or what the operation makes of nothing where map[k] is kAbsent
void pick_or_absent(const Entry& entry, const std::byte* from, Map map, std::byte* to);

}  // namespace mq::sparse
