// The makers of plans that several files use: the table of plans is in plans.cpp.
#pragma once

#include "mpi_quant/plan/plan.hpp"

namespace mq {

// For Ranks::encodes_own: replaces this rank's elements of a chunk by what their encode decodes to. `slot`
// must be free; it is free again afterwards. raw: nothing is lost, so that only the residual is added.
void round_own(Plan& plan, int rank, int chunk, int slot, bool raw = false);  // plans.cpp

// Appends the steps after which chunk r holds, on rank r, the sum of all ranks' elements of it. Round 0: each
// rank sends each owner C(the owner's chunk). The owner adds what it receives to its own elements, in rank
// order. Its own elements are encoded only with Ranks::encodes_own. With Ranks::carries_own it adds the
// residual to them, by raw steps, which lose nothing. Slots 0 to P-2 are sent, P-1 to 2P-3 received into;
// slot 2P-2 is used by what the owner does with its own elements, if anything.
void sum_at_owners(Plan& plan, const Ranks& ranks);  // plans.cpp

Plan make_direct(const Ranks& ranks);            // plans.cpp
Plan make_ring(const Ranks& ranks);              // ring.cpp
Plan make_halving_doubling(const Ranks& ranks);  // halving_doubling.cpp
Plan make_hierarchical(const Ranks& ranks);      // hierarchical.cpp
Plan make_grid(const Ranks& ranks);              // grid.cpp

// See plan_of.
const PlanRow& choose_bcast(std::uint64_t encoded_bytes, int ranks) noexcept;   // rooted.cpp
const PlanRow& choose_reduce(std::uint64_t encoded_bytes, int ranks) noexcept;  // rooted.cpp

// The grid of make_grid: `rows` whole rows of `columns` ranks, and a row of `rest` ranks.
struct GridShape {
  int columns = 1, rows = 1, rest = 0;
  int owners(int column) const { return rows + (column < rest); }  // ranks of a column
};
GridShape grid_shape(int size);  // grid.cpp

}  // namespace mq
