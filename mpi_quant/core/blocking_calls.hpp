// What blocking calls on a communicator share: the opening of its channel, and one run, which is kept with
// the communicator so that the memory of one call serves the next.
#pragma once

#include <mpi.h>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/running_call.hpp"

namespace mq {

// The run of the blocking call that has the turn. It is used with the state's mutex held, except in
// complete().
RunningCall& blocking_run(CommState& state);

// Opens the channel of state for this use. Collective at the first call of each use, when all ranks know that
// some of them may compress. False on all ranks if MPI has no communicator left for this use. The state's
// mutex must be held.
Result<bool> activate(CommState& state, MPI_Comm user_comm, Use use);

}  // namespace mq
