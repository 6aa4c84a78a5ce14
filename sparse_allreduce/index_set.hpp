// The caller's list of indices as a set: strictly ascending, and where each of the caller's indices stands in
// it.
#pragma once

#include <cstdint>
#include <span>

#include "mpi_quant/base/status.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq::sparse {

enum class Order : std::uint8_t {
  sorted,  // the caller vouches for strictly ascending indices; anything else is an error
  any,     // any order, duplicates too
};

struct IndexSet {
  std::span<const std::uint64_t> indices;  // strictly ascending; the caller's own where these are
  // The caller's index i is indices[place[i]]; empty: place[i] = i. Duplicates have one place.
  std::span<const std::uint32_t> place;
};

// Checks `given` and makes the set of it, in memory of the workspace; at most 2^32 - 1 indices, each in
// [0, limit), limit <= 2^63. Throws std::bad_alloc.
Status make_index_set(std::span<const std::int64_t> given, Order order, std::uint64_t limit,
                      Workspace& memory, IndexSet& set);

}  // namespace mq::sparse
