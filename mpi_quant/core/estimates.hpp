// The estimates of a key around one call: what this rank brings to the agreement about them, what the call does once the ranks
// have agreed, and what they have been through afterwards. All ranks must continue the same sum of estimates. So they compare
// stamps, and where one rank's differs (a failed call, a reset on one rank), the call is exact and starts the estimates again.
#pragma once

#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/engine/reduction.hpp"
#include "mpi_quant/memory/residuals.hpp"

namespace mq {

// Before the agreement, for a rule with estimates. entry: of the call's key, its arrays in host memory; null: this rank keeps
// none. skip: the program wants this rank to send nothing.
void bring_estimates(Reduction& reduction, const Residuals::Entry* entry, bool skip, Maxima& maxima);
// After it. False if no rank sends anything: then deliver_standing() gives the result. True for other rules.
bool settle_estimates(Reduction& reduction, const Residuals::Entry* entry, const Maxima& agreed);
// After the call has succeeded on this rank.
void keep_estimates(const Reduction& reduction, Residuals::Entry& entry);

}  // namespace mq
