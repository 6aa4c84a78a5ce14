// What the library keeps for a communicator, in an MPI attribute: private duplicate, policy, plans, scratch,
// residuals, numbers. Made at the first use, which is collective; freed with the communicator or when MPI is
// finalized.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>

#include "mpi_quant.h"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/plan.hpp"
#include "mpi_quant/policy.hpp"
#include "mpi_quant/residuals.hpp"

namespace mq {

class CommState {
 public:
  // The state of comm, an intracommunicator of at least two ranks; made, collectively, if there is none:
  // private communicator, agreement on wire version, rank 0's policy. Ranks with different MPIQ_POLICY or
  // versions get exact mode, see MPIQ_Stats.exact_mode. An error (a policy that cannot be parsed) is one on
  // every rank and leaves no state.
  static Result<CommState*> obtain(MPI_Comm comm);
  // The state of comm or null. Local.
  static CommState* find(MPI_Comm comm);

  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // Collective. Replaces the policy by rank 0's rules if all ranks gave the same ones and they can be parsed;
  // else an error on every rank, and the policy stays.
  Status set_policy(std::string_view rules);
  // The plan of a row on this communicator, made once.
  const Plan& plan(const PlanRow& row);

  MpiComm comm;
  Policy policy;
  std::uint32_t sequence = 0;  // calls that went through agree()
  Buffer scratch;
  Residuals residuals;
  MPIQ_Stats stats{};

 private:
  explicit CommState(MPI_Comm private_comm);
  struct Agreed {
    std::string text;  // rank 0's
    bool same_text, same_version;
  };
  // Collective. What rank 0 has, and whether all have it; an error on every rank if `local` is one on any.
  Result<Agreed> compare(std::string_view text, const Status& local, std::string_view what);

  MPI_Comm private_comm_;
  std::map<std::uint16_t, Plan> plans_;
};

}  // namespace mq
