// Measures the links of a communicator.
#pragma once

#include <mpi.h>

#include "mpi_quant/advisor/link.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective; takes about 0.3 s and gives the same model on all ranks. comm has at least two ranks, is used
// for nothing else, and its error handler is MPI_ERRORS_RETURN.
//
// Pairs of ranks exchange messages of 1 KiB to 4 MiB. As in an allreduce, all pairs exchange at the same
// time, and the slowest pair counts. There are two pairings: with the neighbour, and with the rank half the
// communicator away, which is on another node if ranks are placed node by node. If the number of ranks is
// odd, the last rank is idle. Then they exchange short messages in bursts, which tell latency and overhead
// apart.
Result<LinkModel> measure_link(MPI_Comm comm);

}  // namespace mq
