// MPI's own functions of those that the preload library stands before. Nothing in the library calls
// PMPI_Allreduce or PMPI_Iallreduce: beneath the preload library these names are the preload library's.
#pragma once

#include <mpi.h>

namespace mq {

// The family of MPI libraries that this code is compiled for; libraries and cores have it in their names.
#ifdef OPEN_MPI
inline constexpr const char* kFamily = "openmpi";
#else
inline constexpr const char* kFamily = "mpich";
#endif

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

// Whether this MPI says that its messages may be in the memory of CUDA devices: MPIX_GPU_query_support (MPICH
// and its relatives) or MPIX_Query_cuda_support (Open MPI and its). Asked at the first call, after MPI_Init.
bool mpi_takes_device_memory() noexcept;

}  // namespace mq
