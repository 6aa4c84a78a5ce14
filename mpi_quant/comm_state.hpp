// What the library keeps for a communicator, in an MPI attribute: policy, private communicator, plans,
// scratch, residuals, numbers. Made at the first use, which is collective; freed with the communicator or
// when MPI is finalized.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "mpi_quant.h"
#include "mpi_quant/agree.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/plan.hpp"
#include "mpi_quant/policy.hpp"
#include "mpi_quant/residuals.hpp"

namespace mq {

class CommState {
 public:
  // Where the policy of a new state comes from.
  enum class Initial { environment, no_rules };

  // The state of comm, an intracommunicator of at least two ranks; made, collectively, if there is none. Null
  // where the library stays out of the way: before MPI_Init, in programs that use sessions only, and once
  // MPI_Finalize has begun. Ranks with different MPIQ_POLICY or versions get exact mode, see
  // MPIQ_Stats.exact_mode. An error (a policy that cannot be parsed) is one on every rank and leaves no
  // state.
  static Result<CommState*> obtain(MPI_Comm comm, Initial initial);
  // The state of comm or null. Local.
  static CommState* find(MPI_Comm comm);

  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // Collective over user_comm, whose state this is. Replaces the policy if all ranks gave the same rules and
  // they can be parsed; else an error on every rank, and the policy stays.
  Status set_policy(MPI_Comm user_comm, std::string_view rules);
  // Collective at the first call. The private communicator: most communicators of a program never need one,
  // and MPI has few thousand.
  Status activate(MPI_Comm user_comm);
  // The plan of a row on this communicator, made once.
  const Plan& plan(const PlanRow& row);
  // After a communication error: messages may still be on their way into the buffers, so they are never used
  // again.
  void set_broken(const Status& why) { broken = why; }

  std::optional<MpiComm> comm;  // once active
  Policy policy;
  Status broken;               // why this communicator cannot be used any more
  std::uint32_t sequence = 0;  // calls that went through agree()
  HelloBuffers hellos;
  Buffer scratch;
  Residuals residuals;
  MPIQ_Stats stats{};

 private:
  CommState() = default;
  struct Agreed {
    std::string text;  // rank 0's
    bool same_text, same_version;
  };
  // Collective. What rank 0 has, and whether all have it; an error on every rank if `local` is one on any.
  static Result<Agreed> compare(MPI_Comm comm, std::string_view text, const Status& local,
                                std::string_view what);

  MPI_Comm private_comm_ = MPI_COMM_NULL;
  std::map<std::uint16_t, Plan> plans_;
};

}  // namespace mq
