// MPI's own collectives among simulated ranks: whole messages, one after the other, by one of the algorithms
// of MPI libraries. It is what compressed calls are compared with. raw/PLAN is another thing: there the
// library's executor sends a message for every chunk of the plan, in frames.
//
// Of an allreduce the algorithms are those that plan/cost.hpp prices. A reduce-scatter is made by recursive
// halving or by a ring, an allgather by recursive doubling (among a power of two of ranks), by the algorithm
// of Bruck et al. (1997) or by a ring, as Thakur, Rabenseifner and Gropp (2005) describe them. They also have
// a pairwise exchange. Its rounds have as many messages as the rounds of a ring, of the same lengths.
//
// A broadcast goes down a binomial tree; or the root scatters the vector down such a tree, and an allgather
// follows (van de Geijn). A reduction goes up a binomial tree; or it is a reduce-scatter by halving, and a
// gather (Rabenseifner). Both are in the same paper. The root is rank 0. Chains of short messages, which some
// MPI libraries have, are left out.
#pragma once

#include <string_view>
#include <vector>

#include "bench/research/simulate/call.hpp"
#include "mpi_quant/plan/cost.hpp"

namespace mq::sim {

struct DenseResult {
  SimulatedResult simulated;  // has no plan
  std::string_view algorithm;
};

// Those that a call can be made by. Names of kDenseNames, recursive_halving, bruck, binomial, scatter_ with
// the name of an allgather's, and halving_gather.
std::vector<std::string_view> dense_algorithms(mq::Collective collective, int ranks);

// By the algorithm that is the fastest for this call. They are tried in the order of their times by a model.
// Those that it says take more than twice as long as its best are not tried; nor, on a network without
// bursts, those that it says take more than 1.25 times as long as the best that was simulated. The call's
// method is mpi. check() must have allowed it. Throws std::bad_alloc.
DenseResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates);
// By this one.
SimulatedResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates,
                               std::string_view algorithm);

}  // namespace mq::sim
