// How much of the error of a codec a plan brings into the result. Uses no MPI.
#pragma once

#include "mpi_quant/plan/plan.hpp"

namespace mq {

// How often an element is rounded on its way through a plan: the share of the contributions that are encoded,
// and how many times the sum is encoded. A sum of some of the ranks counts as their share of the result's.
struct Losses {
  double contributions = 1, aggregate = 1;
  double all() const { return contributions + aggregate; }
};

// ranks: of the call; its rank is of no account.
Losses losses_of(const PlanRow& plan, const Ranks& ranks);

}  // namespace mq
