// The points of sweeps over sparse vectors, in the words of mpiq-bench sparse, as reductions to simulate.
#pragma once

#include "bench/points.hpp"
#include "bench/research/simulate/sparse.hpp"
#include "bench/rows.hpp"

namespace mq::sim {

// A method without its lists: whether check() allows it does not depend on them, but on their number.
Result<SparseReduction> reduction_of(const bench::Options& options, const bench::Point& point,
                                     const bench::SparseMethod& method, const ListCosts& costs);
// The lists of all ranks, as mpiq-bench sparse makes them. --lists=new: of the first turn.
void make_lists(const bench::Options& options, const bench::Point& point, SparseReduction& reduction);
// Describes rank 0's list.
bench::InputRow input_of_lists(const bench::Options& options, const bench::Point& point);

}  // namespace mq::sim
