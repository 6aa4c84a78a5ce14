// How much of the error of a codec a plan brings into the result. Uses no MPI.
#pragma once

#include "mpi_quant/plan/plan.hpp"

namespace mq {

// How often an element is rounded on its way through a plan: the share of the contributions that are encoded,
// and encodes of the whole result to which the encodes of sums are equal. A sum of k of P ranks counts as
// k/P, as if what the ranks bring were independent. In an allgather or a broadcast one rank contributes to an
// element.
struct Losses {
  double contributions = 1, aggregate = 1;
  double all() const { return contributions + aggregate; }
};

// ranks: of the call; which rank it names does not matter.
Losses losses_of(const PlanRow& plan, const Ranks& ranks);

}  // namespace mq
