// What the library's model of time (mpi_quant/plan/cost.hpp) says of a simulated call, so that the two can be
// compared.
#pragma once

#include "bench/research/simulate/call.hpp"
#include "mpi_quant/plan/cost.hpp"

namespace mq::sim {

// The prices of a network, and of the steps of a codec at these rates. The rates of a step depend on what is
// in the cache: an element's first and last step find it in memory, and the prices of memory are what that
// adds.
Prices prices_of(const SimulatedCall& call, const Network& network, const Rates& rates);

// check() must have allowed the call. All messages are taken to go from node to node.
Cost model_of(const SimulatedCall& call, const Network& network, const Rates& rates);

}  // namespace mq::sim
