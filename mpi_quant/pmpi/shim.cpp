// MPI_Allreduce in place of the MPI library's: the whole of what preloading or linking libmpi_quant_pmpi.so
// changes. A call too small to be compressed costs one comparison before it reaches PMPI_Allreduce.

#include "mpi_quant/allreduce.hpp"

#include "mpi_quant.h"

namespace {

// Fewer elements than this are below the floor for every element type.
constexpr MPI_Count kFewestElements = mq::kInterceptFloorBytes / 8;

int intercept(const mq::Call& call) { return mq::conclude(call, mq::intercepted_allreduce(call)); }

}  // namespace

extern "C" {

MPIQ_PUBLIC int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                              MPI_Comm comm) {
  if (count < kFewestElements) return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
  return intercept({sendbuf, recvbuf, count, datatype, op, comm});
}

#if MPI_VERSION >= 4
MPIQ_PUBLIC int MPI_Allreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                MPI_Op op, MPI_Comm comm) {
  if (count < kFewestElements) return PMPI_Allreduce_c(sendbuf, recvbuf, count, datatype, op, comm);
  return intercept({sendbuf, recvbuf, count, datatype, op, comm});
}
#endif

}  // extern "C"
