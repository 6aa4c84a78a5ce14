// What the library keeps for a communicator, in an MPI attribute (registry.hpp). Made at the first use, which is collective;
// freed with the communicator and the last request on it, or when MPI is finalized.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "mpi_quant.h"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/core/call_run.hpp"
#include "mpi_quant/core/channel.hpp"
#include "mpi_quant/core/extension.hpp"
#include "mpi_quant/core/guard.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/device/resources.hpp"
#include "mpi_quant/memory/identity.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// What the ranks agreed on at the first use, and how many calls the rules have decided.
struct AgreedPolicy {
  Policy rules;
  Mode mode = Mode::on;     // of the preload library; on where the ranks differ
  bool same_watch = true;   // all ranks have the same mode, and all or none write a report
  std::string comm_name;    // of the user's communicator; empty if it is not the same on all ranks
  std::uint64_t calls = 0;  // that came as far as the rules
};

// Memory for calls under way.
struct Scratch {
  std::size_t host_bytes = 0;  // that the runs of calls hold
  DevicePool devices;          // what calls with vectors on GPUs need
  std::size_t bytes() const { return host_bytes + devices.bytes(); }
};

// What MPI_Allreduce of unmodified programs needs to remember between calls.
struct Intercepted {
  Identities identities;                  // of the residuals of calls that name no key
  std::map<std::uint64_t, Guard> guards;  // by what the ranks agreed on for the guarded calls
};

class CommState : public std::enable_shared_from_this<CommState> {
 public:
  // Where the policy of a new state comes from.
  enum class Initial { environment, no_rules };

  // The state of comm, an intracommunicator of at least two ranks; made, collectively, if there is none. Null where the library
  // stays out of the way: before MPI_Init, in programs that use sessions only, and once MPI_Finalize has begun. Ranks with
  // different MPIQ_POLICY or versions get exact mode, see MPIQ_Stats.exact_mode. An error (a policy that cannot be parsed) is
  // one on every rank and leaves no state.
  static Result<CommState*> obtain(MPI_Comm comm, Initial initial);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // Collective over user_comm, whose state this is. Replaces the policy if all ranks gave the same rules and they can be
  // parsed; else an error on every rank, and the policy stays.
  Status set_policy(MPI_Comm user_comm, std::string_view rules);
  // Collective at the first call of each use, which comes where all ranks know that some of them may compress: opens the
  // channel. False, on all ranks, if MPI has no communicator left for this use. The mutex is held.
  Result<bool> activate(MPI_Comm user_comm, Use use);
  // After a communication error: messages may still be on their way into the buffers, so the state, its buffers and its
  // private communicator are kept for ever and never used again.
  void set_broken(const Status& why);
  // Likewise the private communicator of one that still works, if receives stay posted on it.
  void keep() { kept_ = shared_from_this(); }
  // Gives the private communicator back.
  void close();

  // Held while anything below is used; not while waiting for another rank, but for the first call.
  std::mutex mutex;
  Turns turns;
  AgreedPolicy policy;
  Channel channel;
  CallOrder order;
  Residuals residuals;
  Intercepted intercepted;
  Scratch scratch;
  MPIQ_Stats stats{};
  std::unique_ptr<Extension> extension;
  bool orphan = false;                                 // the user's communicator is gone
  Status broken;                                       // why this communicator cannot be used any more
  CallRun blocking{*this, CallRun::Exact::by_caller};  // what blocking calls run, one at a time

 private:
  CommState() = default;
  Status meet();

  std::shared_ptr<CommState> kept_;  // of itself, for ever
};

}  // namespace mq
