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

// The functions: the name of the member, and MPI's name.
#define MQ_REAL_MPI(F)                            \
  F(allreduce, Allreduce)                         \
  F(iallreduce, Iallreduce)                       \
  F(reduce_scatter, Reduce_scatter)               \
  F(ireduce_scatter, Ireduce_scatter)             \
  F(reduce_scatter_block, Reduce_scatter_block)   \
  F(ireduce_scatter_block, Ireduce_scatter_block) \
  F(allgather, Allgather)                         \
  F(iallgather, Iallgather)                       \
  F(allgatherv, Allgatherv)                       \
  F(iallgatherv, Iallgatherv)                     \
  F(bcast, Bcast)                                 \
  F(ibcast, Ibcast)                               \
  F(reduce, Reduce)                               \
  F(ireduce, Ireduce)

// From MPI 4 on each has a form with large counts, of the same name and "_c".
struct RealMpi {
#define MQ_MEMBER(member, Name) decltype(&PMPI_##Name) member;
  MQ_REAL_MPI(MQ_MEMBER)
#undef MQ_MEMBER
#if MPI_VERSION >= 4
#  define MQ_MEMBER(member, Name) decltype(&PMPI_##Name##_c) member##_c;
  MQ_REAL_MPI(MQ_MEMBER)
#  undef MQ_MEMBER
#endif
};

// Found at the first call.
const RealMpi& real_mpi() noexcept;

// True if this MPI says that messages may be in the memory of CUDA devices: by MPIX_GPU_query_support (MPICH
// and its relatives) or MPIX_Query_cuda_support (Open MPI and its relatives). Asked at the first call, after
// MPI_Init.
bool mpi_takes_device_memory() noexcept;

}  // namespace mq
