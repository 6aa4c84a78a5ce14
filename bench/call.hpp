// One method, ready to be called. "mpi" is the program's own MPI_Allreduce, MPI_Reduce_scatter_block or
// MPI_Allgather; everything else goes through the MPIQ_ function of the same name, as in a user's program. If
// vectors are in the memory of a GPU, "mpi" copies, makes the call on the host and copies back, as a program
// must whose MPI does not know GPU memory. Each Call has a communicator of its own. So residuals, plans,
// connections and statistics belong to one method at one point and are freed with it.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective_call.hpp"
#include "bench/form.hpp"
#include "bench/gpu.hpp"
#include "bench/nccl.hpp"
#include "bench/parse_lists.hpp"
#include "mpi_quant.h"

namespace mq::bench {

MPI_Datatype mpi_type(kernels::Element element);

class Call {
 public:
  // Collective over comm, as is the destructor. count: of the whole vector. gpu: the GPU that holds the
  // vectors; null: they are on the host. form, window: what start() makes, and how many calls may be in
  // flight. Throws std::bad_alloc if there is no pinned memory.
  Call(const MethodWord& method, kernels::Element element, MPI_Count count, bool feedback, MPI_Comm comm,
       std::shared_ptr<const Gpu> gpu = nullptr, mq::Collective collective = mq::Collective::allreduce,
       Form form = Form::nonblocking, int window = 1);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int operator()(const void* send, void* receive) const;  // an MPI error code; never aborts
  // A call that does not block, of vectors on the host. Call i of the window has residuals of its own. test()
  // says whether it is over; wait() follows in any case. A persistent call is prepared by its first start(),
  // and keeps these vectors. MPI error codes.
  int start(const void* send, void* receive, std::size_t i = 0);
  int test(bool& over, std::size_t i = 0);
  int wait(std::size_t i = 0);
  // the reason why it cannot be used, equal on all ranks; "" if it can
  const std::string& unavailable() const { return unavailable_; }
  MPIQ_Stats stats() const;              // all zero for mpi
  bool exact() const { return exact_; }  // its result must agree with MPI's up to rounding
  // What one call leaves out is added to the next. For half types this holds for lossless codecs too, because
  // their sums are rounded.
  bool carries() const { return carries_; }
  bool chooses() const { return chooses_; }
  bool compresses() const { return compresses_; }

 private:
  int staged(const void* send, void* receive) const;
  bool exact_, compresses_, carries_, chooses_;
  Dense dense_;
  std::size_t element_bytes_;
  std::shared_ptr<const Gpu> gpu_;
  GpuMemory pinned_;  // for the staged call
  std::unique_ptr<Nccl> nccl_;
  std::string unavailable_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Info> infos_;  // by call of the window
  Form form_;
  std::optional<CollectiveCall> collective_;
  std::vector<MPI_Request> mpi_requests_;
  std::vector<MPIQ_Request> requests_;
};

// Whether this MPI library reports, here and now, that it takes addresses on a GPU.
bool mpi_takes_gpu_memory();

std::string error_text(int mpi_error);

}  // namespace mq::bench
