// What blocking calls on a communicator share: the opening of its channel, and their runs, which are kept
// with the communicator so that the memory of one call serves the next.
#pragma once

#include <mpi.h>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/scheme_run.hpp"

namespace mq {

// The runs of the blocking call that has the turn. They are used with the state's mutex held, except in
// complete().
Runs& blocking_runs(CommState& state);

// Opens the channel of state for this use. Collective at the first call of each use, when all ranks know that
// some of them may compress. False on all ranks if MPI has no communicator left for this use. The state's
// mutex must be held.
Result<bool> activate(CommState& state, MPI_Comm user_comm, Use use);

}  // namespace mq
