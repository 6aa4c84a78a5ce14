// The estimates of a key around one call: what this rank brings to the agreement about them, what the call
// does once the ranks have agreed, and their version afterwards. All ranks must continue the same sum of
// estimates. So they compare versions. Where one rank has another version (after a failed call, or a reset on
// one rank), the call is exact and starts the estimates again.
#pragma once

#include "mpi_quant/device/placement.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/engine/reduction.hpp"
#include "mpi_quant/memory/residuals.hpp"

namespace mq {

// Before the agreement: what the memory rule measures on this rank's vector, and for a rule with estimates
// what the rank brings to the agreement. entry: of the call's key; null: this rank keeps none. skip: the
// program wants this rank to send nothing. An error is the call's local error.
Status measure_feedback(Reduction& reduction, DevicePlacement& vectors, const Residuals::Entry* entry,
                        bool skip, Maxima& maxima);
// After it. sends: whether any rank sends anything; if not, the result is delivered here. An error is a
// failure of this rank's run, which must go on for the others if `sends`.
Status settle_estimates(Reduction& reduction, DevicePlacement& vectors, const Residuals::Entry* entry,
                        const Maxima& agreed, bool& sends);
// After the call has succeeded on this rank.
void keep_estimates(const Reduction& reduction, Residuals::Entry& entry);

}  // namespace mq
