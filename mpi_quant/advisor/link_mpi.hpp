// Measures the links of a communicator.
#pragma once

#include <mpi.h>

#include "mpi_quant/advisor/link.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective; the same model on all ranks, in about 0.3 s. comm has at least two ranks, nothing else uses it,
// and its error handler is MPI_ERRORS_RETURN.
//
// Pairs of ranks exchange messages of 1 KiB to 4 MiB, all pairs at the same time, as in an allreduce; the
// slowest pair counts. Twice: with the neighbour, and with the rank half the communicator away, which is on
// another node where ranks are placed node by node. With an odd number of ranks the last is idle.
Result<LinkModel> measure_link(MPI_Comm comm);

}  // namespace mq
