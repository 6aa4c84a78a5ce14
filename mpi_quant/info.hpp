// The mpiq_ keys of an MPI_Info. Separate because all functions that take one read it alike.
#pragma once

#include <mpi.h>

#include "mpi_quant/allreduce.hpp"

namespace mq {

// What an info asks for a vector of count elements; what is wrong with it is the trouble. Other libraries'
// keys are passed over.
Wishes read_wishes(MPI_Info info, MPI_Count count) noexcept;
// What an info asks for a communicator: "mpiq_policy" is kept for its first use, see CommState::keep_rules.
Status keep_rules(MPI_Comm comm, MPI_Info info);

}  // namespace mq
