// MPI's own functions of those that the preload library stands before. Nothing else in the library calls
// PMPI_Allreduce: beneath the preload library that name is the preload library's.
#pragma once

#include <mpi.h>

namespace mq {

struct RealMpi {
  decltype(&PMPI_Allreduce) allreduce;
#if MPI_VERSION >= 4
  decltype(&PMPI_Allreduce_c) allreduce_c;
#endif
};

// Found at the first call.
const RealMpi& real_mpi() noexcept;

}  // namespace mq
