// MPI's own functions of those that the preload library stands before. Nothing in the library calls
// PMPI_Allreduce or PMPI_Iallreduce: beneath the preload library these names are the preload library's.
#pragma once

#include <mpi.h>

namespace mq {

struct RealMpi {
  decltype(&PMPI_Allreduce) allreduce;
  decltype(&PMPI_Iallreduce) iallreduce;
#if MPI_VERSION >= 4
  decltype(&PMPI_Allreduce_c) allreduce_c;
  decltype(&PMPI_Iallreduce_c) iallreduce_c;
#endif
};

// Found at the first call.
const RealMpi& real_mpi() noexcept;

}  // namespace mq
