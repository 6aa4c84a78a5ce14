// MPI's own reduction among simulated ranks: whole messages, one after the other, by one of the algorithms
// that plan/cost.hpp prices. It is what compressed calls are compared with. raw/PLAN is another thing: there
// the library's executor sends a message for every chunk of the plan, in frames.
#pragma once

#include <string_view>

#include "bench/research/simulate/call.hpp"
#include "mpi_quant/plan/cost.hpp"

namespace mq::sim {

struct DenseResult {
  SimulatedResult simulated;  // has no plan
  std::string_view algorithm;
};

// By the algorithm that is the fastest for this call. Those that the model says take more than twice as long
// as its best are not tried. The call's method is mpi. check() must have allowed it. Throws std::bad_alloc.
DenseResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates);
// By this one.
SimulatedResult simulate_dense(const SimulatedCall& call, const Network& network, const Rates& rates,
                               DenseAlgorithm algorithm);

}  // namespace mq::sim
