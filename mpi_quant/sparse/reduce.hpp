// MPIQ_Sparse_allreduce, and the persistent reduction of MPIQ_Sparse_allreduce_init, which MPIQ_Start begins
// and MPIQ_Test and MPIQ_Wait complete. A start exchanges values only. Ranks may start it at any time,
// because its messages have tags of their own.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "mpi_quant.h"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/requests.hpp"
#include "mpi_quant/core/shared_time.hpp"
#include "mpi_quant/sparse/options.hpp"
#include "sparse_allreduce/kylix.hpp"

namespace mq {

struct SparseArguments {
  MPI_Count out_count;
  const std::int64_t* out_indices;
  const void* out_values;
  MPI_Count in_count;
  const std::int64_t* in_indices;
  void* in_values;
  MPI_Count stride;
  MPI_Datatype datatype;
  MPI_Op op;
};

// Collective and blocking.
Status sparse_reduce(const SparseArguments& arguments, MPI_Comm comm, const SparseOptions& options);
// Collective. Makes a persistent reduction.
Status sparse_allreduce_init(const SparseArguments& arguments, MPI_Comm comm, SparseOptions options,
                             MPIQ_Request* request);

class SparseRun final : public Startable, public InFlight {
 public:
  // Collective. Compares the calls, exchanges the lists, and takes all memory. The outcome is the same on all
  // ranks.
  static Status make(const SparseArguments& arguments, MPI_Comm comm, const SparseOptions& options,
                     std::unique_ptr<SparseRun>& made);
  ~SparseRun() override;
  SparseRun(const SparseRun&) = delete;
  SparseRun& operator=(const SparseRun&) = delete;

  InFlight* in_flight() override { return state_ != nullptr ? this : nullptr; }
  void start(Status local_error) noexcept override;
  Status result() noexcept override { return status_; }

  CommState& state() const override { return *state_; }
  bool advance() noexcept override;
  bool done() const noexcept override { return done_; }
  void abandon() noexcept override {}  // continues, because the other ranks need it

 private:
  SparseRun() = default;
  void finish(Status status) noexcept;

  std::shared_ptr<CommState> state_;  // null on one rank
  std::optional<MpiComm> comm_;
  sparse::KylixRoutes kylix_;
  sparse::KylixReduction<MpiComm> reduction_;
  Traffic booked_;  // the part of its traffic already counted in the statistics
  const void* out_values_ = nullptr;
  void* in_values_ = nullptr;
  bool done_ = true;
  Share share_;
  Status status_;
};

}  // namespace mq
