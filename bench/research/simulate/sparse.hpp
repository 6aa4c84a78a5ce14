// One reduction of sparse vectors among simulated ranks: the algorithms of sparse_allreduce over the network
// of a World. The lists and their values exist, and every result is checked. What a rank does with its lists
// takes a time for each entry (ListCosts), whatever the entry's values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/research/simulate/call.hpp"
#include "sparse_allreduce/union_job.hpp"

namespace mq::sim {

// Seconds for each entry of a list: to write it to a message, to read it from one, to merge it with other
// lists.
using ListCosts = std::array<double, 3>;  // by sparse::Work
// The costs on this processor, measured as the library does for its choice of an algorithm. Throws
// std::bad_alloc.
ListCosts measure_list_costs();
std::string text_of(const ListCosts& costs);  // such as "2ns/2ns/3ns"

struct SparseReduction {
  enum class Kind : std::uint8_t { make_union, kylix, fused } kind = Kind::kylix;
  // The algorithm of a union. "dense" is missing, because it is MPI's own reduction.
  sparse::Algorithm algorithm = sparse::Algorithm::automatic;
  bool dense_result = false;   // of a union: the whole vector, not a list
  std::vector<int> degrees{};  // of kylix and fused; empty: the library chooses
  bool fresh = false;  // of kylix: with its configuration, which is otherwise made before and takes no time
  kernels::Element element = kernels::Element::f32;  // or f64
  std::uint64_t size = 0;                            // all indices are below
  std::vector<std::vector<std::int64_t>> out, in;  // by rank, each strictly ascending; in: of kylix and fused
  ListCosts costs{2e-9, 2e-9, 3e-9};
};

struct SparseResult {
  SimulatedResult simulated;  // without a plan. Its status is also an error if a sum is wrong
  std::vector<int> degrees;   // that were used; of a union: none
  sparse::Algorithm algorithm = sparse::Algorithm::automatic;  // that was used
};

// Whether it can be simulated; if not, why.
Status check(const SparseReduction& reduction, const Network& network);
// check() must have allowed it. Throws std::bad_alloc.
SparseResult simulate(const SparseReduction& reduction, const Network& network);

}  // namespace mq::sim
