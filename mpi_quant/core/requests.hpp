// Non-blocking and persistent calls: what an MPIQ_Request is. They are advanced by task.hpp's functions.
#pragma once

#include <mpi.h>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/sparse/reduce.hpp"

namespace mq {

// The bodies of the MPIQ_ functions of the same names; the communicator whose error handler is to be called
// comes back in comm.
Status iallreduce(const Call& call, const Wishes& wishes, MPIQ_Request* request);
Status allreduce_init(const Call& call, const Wishes& wishes, MPIQ_Request* request);
Status sparse_allreduce_init(const SparseArguments& arguments, MPI_Comm comm, SparseWishes wishes,
                             MPIQ_Request* request);
Status start(MPIQ_Request* request, MPI_Comm& comm);
Status test(MPIQ_Request* request, int* flag, MPI_Comm& comm);
Status wait(MPIQ_Request* request, MPI_Comm& comm);
Status request_free(MPIQ_Request* request, MPI_Comm& comm);

}  // namespace mq
