// The caller's list of indices as a set: strictly ascending, with the position of each of the caller's
// indices in it.
#pragma once

#include <cstdint>
#include <span>

#include "mpi_quant/base/status.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

enum class Order : std::uint8_t {
  sorted,  // the caller guarantees strictly ascending indices; anything else is an error
  any,     // any order, duplicates allowed
};

struct IndexSet {
  std::span<const std::uint64_t> indices;  // strictly ascending; the caller's own array if that is
  // The caller's index i is indices[position[i]]. Empty means position[i] = i. Duplicates share a position.
  std::span<const std::uint32_t> position;
};

// Checks `given` and makes a set of it, in workspace memory if it needs any. There may be at most 2^32 - 2
// indices, each in [0, limit), with limit <= 2^63. Throws std::bad_alloc.
Status make_index_set(std::span<const std::int64_t> given, Order order, std::uint64_t limit,
                      Workspace& memory, IndexSet& set);

}  // namespace mq::sparse
