// Brings the texts of all ranks to rank 0 when MPI is finalized. It uses collectives only, because a receive
// of the program with a wildcard could take a message on the program's communicator.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Whether all ranks of comm come here. Ranks that come get the same answer. The exception is a rank that is
// stopped for longer than the others wait. A rank cannot know whether the others are late, or never come
// because they want no report. So it waits for ten times MPIQ_WATCHDOG seconds (300 where that is 0), and
// then answers false. May be called once, when MPI is being finalized: a rank that stops waiting leaves
// requests behind.
Result<bool> all_come(MPI_Comm comm);

// Collective over comm. Waits for all ranks. If that takes longer than MPIQ_WATCHDOG seconds, it prints to
// stderr what may be wrong. Rank 0 gets the texts in the order of the ranks; the others get nothing.
Result<std::vector<std::string>> gather(MPI_Comm comm, const std::string& mine);

}  // namespace mq
