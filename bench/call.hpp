// One method, ready to be called: "mpi" is the program's own MPI_Allreduce, everything else goes through
// MPIQ_Allreduce as a user's program would. Vectors in the memory of a GPU: "mpi" is then what such a program
// does around an MPI that knows no GPU, copy, reduce, copy. Each has a communicator of its own, so that
// residuals, plans, connections and statistics belong to one method at one point and go away with it.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "bench/gpu.hpp"
#include "bench/lists.hpp"
#include "bench/nccl.hpp"
#include "mpi_quant.h"

namespace mq::bench {

MPI_Datatype mpi_type(kernels::Element element);

// The program's own MPI_Allreduce, whatever the MPI version makes of large counts. Under the preload library
// this is what an unmodified program gets.
int mpi_sum(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

class Call {
 public:
  // Collective over comm, as is the destructor. gpu: where the vectors are, null for the host. Throws
  // std::bad_alloc for want of pinned memory.
  Call(const MethodWord& method, kernels::Element element, MPI_Count count, bool feedback, MPI_Comm comm,
       std::shared_ptr<const Gpu> gpu = nullptr);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int operator()(const void* send, void* receive) const;           // an MPI error code; never aborts
  const std::string& unavailable() const { return unavailable_; }  // why not, "" if it can; agreed on
  MPIQ_Stats stats() const;                                        // all zero for mpi
  bool exact() const { return exact_; }                            // must agree with MPI's sum up to rounding
  // What one call drops is added to the next. Of half types also a lossless codec drops something: its sums
  // are rounded.
  bool carries() const { return carries_; }
  bool compresses() const { return compresses_; }

 private:
  int staged(const void* send, void* receive) const;
  bool exact_, compresses_, carries_;
  Dense dense_;
  MPI_Datatype type_;
  MPI_Count count_;
  std::size_t bytes_;
  std::shared_ptr<const Gpu> gpu_;
  GpuMemory pinned_;  // of the staged reduction
  std::unique_ptr<Nccl> nccl_;
  std::string unavailable_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Info info_ = MPI_INFO_NULL;
};

// Whether this MPI library says that it takes addresses on a GPU, here and now.
bool mpi_takes_gpu_memory();

std::string error_text(int mpi_error);

}  // namespace mq::bench
