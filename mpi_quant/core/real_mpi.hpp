// MPI's own functions behind those that the preload library replaces. Nothing in the library calls them by
// their PMPI_ names: with the preload library these names lead to the preload library itself.
#pragma once

#include <mpi.h>

namespace mq {

// The family of MPI libraries that this code is compiled for. It is part of the names of libraries and cores.
#ifdef OPEN_MPI
inline constexpr const char* kFamily = "openmpi";
#else
inline constexpr const char* kFamily = sizeof(MPI_Comm) == sizeof(int) ? "mpich" : "abi";
#endif

struct RealMpi {
  decltype(&PMPI_Allreduce) allreduce;
  decltype(&PMPI_Iallreduce) iallreduce;
  decltype(&PMPI_Reduce_scatter) reduce_scatter;
  decltype(&PMPI_Reduce_scatter_block) reduce_scatter_block;
  decltype(&PMPI_Allgather) allgather;
  decltype(&PMPI_Allgatherv) allgatherv;
  decltype(&PMPI_Bcast) bcast;
  decltype(&PMPI_Reduce) reduce;
#if MPI_VERSION >= 4
  decltype(&PMPI_Allreduce_c) allreduce_c;
  decltype(&PMPI_Iallreduce_c) iallreduce_c;
  decltype(&PMPI_Reduce_scatter_c) reduce_scatter_c;
  decltype(&PMPI_Reduce_scatter_block_c) reduce_scatter_block_c;
  decltype(&PMPI_Allgather_c) allgather_c;
  decltype(&PMPI_Allgatherv_c) allgatherv_c;
  decltype(&PMPI_Bcast_c) bcast_c;
  decltype(&PMPI_Reduce_c) reduce_c;
#endif
};

// Found at the first call.
const RealMpi& real_mpi() noexcept;

// True if this MPI says that messages may be in the memory of CUDA devices: by MPIX_GPU_query_support (MPICH
// and its relatives) or MPIX_Query_cuda_support (Open MPI and its relatives). Asked at the first call, after
// MPI_Init.
bool mpi_takes_device_memory() noexcept;

}  // namespace mq
