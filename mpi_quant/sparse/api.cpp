// MPIQ_Sparse_allreduce and MPIQ_Sparse_allreduce_init. (MPIQ_Sparse_allreduce_union is in union.cpp.)

#include "mpi_quant.h"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/requests.hpp"
#include "mpi_quant/sparse/reduce.hpp"

using namespace mq;

int MPIQ_Sparse_allreduce(MPI_Count out_count, const int64_t* out_indices, const void* out_values,
                          MPI_Count in_count, const int64_t* in_indices, void* in_values, MPI_Count stride,
                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info) {
  const SparseArguments a{out_count, out_indices, out_values, in_count, in_indices,
                          in_values, stride,      datatype,   op};
  return raise(comm, guarded_status([&] {
                 return sparse_reduce(a, comm, read_sparse_options(info, SparseUse::reduce));
               }));
}

int MPIQ_Sparse_allreduce_init(MPI_Count out_count, const int64_t* out_indices, const void* out_values,
                               MPI_Count in_count, const int64_t* in_indices, void* in_values,
                               MPI_Count stride, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                               MPI_Info info, MPIQ_Request* request) {
  const SparseArguments a{out_count, out_indices, out_values, in_count, in_indices,
                          in_values, stride,      datatype,   op};
  return raise(comm, guarded_status([&] {
                 return sparse_allreduce_init(a, comm, read_sparse_options(info, SparseUse::init), request);
               }));
}
