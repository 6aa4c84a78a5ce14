// Brings the texts of all ranks to rank 0 when MPI is finalized. It uses collectives only, because a receive
// of the program with a wildcard could take a message on the program's communicator.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective over comm. Waits for all ranks. If that takes longer than MPIQ_WATCHDOG seconds, it prints to
// stderr what may be wrong. Rank 0 gets the texts in the order of the ranks; the others get nothing.
Result<std::vector<std::string>> gather(MPI_Comm comm, const std::string& mine);

}  // namespace mq
