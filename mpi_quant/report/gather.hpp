// The texts of all ranks at rank 0, when MPI is finalized. By collectives only: a message on the program's
// communicator could be taken by a receive of the program's that takes anything.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective over comm: waits for all ranks, and says on stderr what may be wrong if that takes longer than
// MPIQ_WATCHDOG seconds. By rank, at rank 0; nothing elsewhere.
Result<std::vector<std::string>> gather(MPI_Comm comm, const std::string& mine);

}  // namespace mq
