// Non-blocking and persistent calls: what an MPIQ_Request is, and the list of those under way. There is no
// hidden thread: MPIQ_Start, MPIQ_Test, MPIQ_Wait and every blocking MPIQ_Allreduce advance all of them, on
// all communicators, so that ranks which wait for different requests still help each other on.
#pragma once

#include <mpi.h>

#include "mpi_quant.h"
#include "mpi_quant/allreduce.hpp"

namespace mq {

// Advances what other calls of this process left under way; true if anything moved. Holds no lock while
// waiting.
bool advance_requests() noexcept;

// The bodies of the MPIQ_ functions of the same names; the communicator whose error handler is to be called
// comes back in comm.
Status iallreduce(const Call& call, const Wishes& wishes, MPIQ_Request* request);
Status allreduce_init(const Call& call, const Wishes& wishes, MPIQ_Request* request);
Status start(MPIQ_Request* request, MPI_Comm& comm);
Status test(MPIQ_Request* request, int* flag, MPI_Comm& comm);
Status wait(MPIQ_Request* request, MPI_Comm& comm);
Status request_free(MPIQ_Request* request, MPI_Comm& comm);

}  // namespace mq
