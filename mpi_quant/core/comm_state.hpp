// What the library keeps for a communicator, in an MPI attribute: policy, private communicator, plans,
// residuals, calls in flight, numbers. Made at the first use, which is collective; freed with the
// communicator and the last request on it, or when MPI is finalized.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/extension.hpp"
#include "mpi_quant/core/guard.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/operation.hpp"
#include "mpi_quant/core/private_comm.hpp"
#include "mpi_quant/device/resources.hpp"
#include "mpi_quant/memory/identity.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

class CommState : public std::enable_shared_from_this<CommState> {
 public:
  // Where the policy of a new state comes from.
  enum class Initial { environment, no_rules };

  // The state of comm, an intracommunicator of at least two ranks; made, collectively, if there is none. Null
  // where the library stays out of the way: before MPI_Init, in programs that use sessions only, and once
  // MPI_Finalize has begun. Ranks with different MPIQ_POLICY or versions get exact mode, see
  // MPIQ_Stats.exact_mode. An error (a policy that cannot be parsed) is one on every rank and leaves no
  // state.
  static Result<CommState*> obtain(MPI_Comm comm, Initial initial);
  // Makes sure that what the library holds of MPI's is given back when MPI_Finalize begins. Local.
  static Status watch_finalize();
  // To be run then, before anything is given back: communication is still possible. Once.
  static void at_finalize(void (*run)());
  // Keeps rules for the first use of comm, in place of MPIQ_POLICY. Local; all ranks should have the same. An
  // error if that use was before.
  static Status keep_rules(MPI_Comm comm, std::string_view rules);
  // What all communicators hold now.
  struct Memory {
    std::uint64_t scratch_bytes = 0, residual_bytes = 0;
  };
  static Memory memory();
  // Requests that were not completed when MPI_Finalize began.
  static std::size_t unfinished_requests();
  // The state of comm or null. Local.
  static CommState* find(MPI_Comm comm);

  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // Collective over user_comm, whose state this is. Replaces the policy if all ranks gave the same rules and
  // they can be parsed; else an error on every rank, and the policy stays.
  Status set_policy(MPI_Comm user_comm, std::string_view rules);
  // Gives the private communicator back.
  void close();
  // Collective at the first call of each use, which comes where all ranks know that some of them may
  // compress. The private communicator: most communicators of a program never need one. False, on all ranks,
  // if MPI has none left for this use.
  Result<bool> activate(MPI_Comm user_comm, Use use);
  // Whether activate() has been there for this use.
  bool has(Use use) {
    const std::scoped_lock lock(mutex);
    return comm.has_value() && lease_.use >= use;
  }
  bool is_refused() const { return refused_[0] || refused_[1]; }
  struct Program {
    Plan plan;
    PlanFacts facts;
  };
  // The plan of a row for elements of this type on this communicator, made once.
  const Program& program(const PlanRow& row, kernels::Element element);
  // Segments of a call of this plan in flight, so that they have tags enough. The same on all ranks.
  int lanes_of(const Plan& plan) const { return std::min(lanes, (window_tags - 1) / plan.rounds); }
  // After a communication error: messages may still be on their way into the buffers, so the state, its
  // buffers and its private communicator are kept for ever and never used again.
  void set_broken(const Status& why);
  // Likewise the private communicator of one that still works, if receives stay posted on it.
  void keep() { kept_ = shared_from_this(); }

  int first_tag(int window) const { return lease_.first_tag + window * window_tags; }

  // Calls enter in the order of their numbers, and at most kWindows are between enter and leave, each with
  // tags of its own: a message of one is never taken for one of another.
  static constexpr std::uint32_t kWindows = 32;  // divides 2^32, so that numbers may wrap around
  static constexpr int window_tags = 1000;
  static_assert(static_cast<int>(kWindows) * window_tags == Lease::kTags);
  static_assert(kMaxRounds < window_tags);  // the last tag of a window is the agreement's
  static constexpr int kMaxLanes = 16;      // fewer for a plan of many rounds: lanes_of
  // The window of a call, or -1 while it has to wait.
  int enter(const QueuePosition& place, std::uint32_t sequence);
  void leave(std::uint32_t sequence);
  // True once all calls before this one have left or gone past their turn.
  bool may_reduce(std::uint32_t sequence) const;

  // Held while anything below is used; not while waiting for another rank, but for the first call.
  std::mutex mutex;
  bool has_turn = false;  // somebody, see turn.hpp
  std::condition_variable turn_over;
  std::optional<MpiComm> comm;  // once active
  int lanes = 4;                // segments in flight; the same on all ranks
  Policy policy;
  Mode mode = Mode::on;                   // of the preload library; on where the ranks differ
  bool same_watch = true;                 // all ranks have the same mode, and all or none write a report
  Identities identities;                  // of the residuals of calls that name no key
  std::map<std::uint64_t, Guard> guards;  // by what the ranks agreed on for the guarded calls
  std::string name;                // of the user's communicator at its first use; empty if ranks differ in it
  std::uint64_t policy_calls = 0;  // that came as far as the policy
  bool orphan = false;             // the user's communicator is gone
  Status broken;                   // why this communicator cannot be used any more
  std::uint32_t sequence = 0;      // calls that were started
  Residuals residuals;
  MPIQ_Stats stats{};
  std::size_t scratch_bytes = 0;  // of all calls' operations
  std::size_t all_scratch_bytes() const { return scratch_bytes + device_pool.bytes(); }
  DevicePool device_pool;  // of what calls with vectors on GPUs need
  std::unique_ptr<Extension> extension;
  Operation blocking{*this, Operation::Exact::by_caller};  // what blocking calls run, one at a time

 private:
  CommState() = default;
  struct Agreed {
    std::string text;  // rank 0's
    bool same_text, same_version, same_name, same_facts;
  };
  // Collective. What rank 0 has, and whether all have it; an error on every rank if `local` is one on any.
  static Result<Agreed> compare(MPI_Comm comm, std::string_view text, std::string_view name,
                                std::uint32_t facts, const Status& local, std::string_view what);

  Status meet();
  void take(const Nodes& nodes);

  Lease lease_;
  std::array<bool, kUses> refused_{};  // by MPI, for ever
  std::shared_ptr<CommState> kept_;    // of itself, for ever
  std::optional<int> per_node_;        // of Ranks, once asked for; the same on all ranks
  std::map<std::pair<std::uint16_t, int>, Program> programs_;  // by row and ranks per node
  std::array<const QueuePosition*, kWindows> window_{};        // by number, modulo kWindows
  std::uint32_t entered_ = 0, oldest_ = 0;  // numbers of the next to enter and of the first that has not left
};

}  // namespace mq
