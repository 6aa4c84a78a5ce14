// How the ranks of one communicator exchange the library's messages: the private communicator that is leased at the first use
// that needs one, and the plans made for its ranks. Most communicators of a program never open a channel.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/private_comm.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

class Channel {
 public:
  // Whether it is open for this use.
  bool serves(Use use) const { return comm_.has_value() && lease_.use >= use; }
  bool is_open() const { return comm_.has_value(); }
  // MPI had no communicator left when one was asked for.
  bool was_refused() const { return refused_[0] || refused_[1]; }

  // Collective where the channel does not serve this use yet; before, all ranks have agreed that they are here. False on all
  // ranks if MPI has no communicator left for this use; that stays so.
  Result<bool> open(MPI_Comm user_comm, Use use);
  bool is_refused(Use use) const { return refused_[static_cast<std::size_t>(use)]; }
  // Collective where the nodes of the ranks are not known yet. The channel is open.
  Status find_nodes(MPI_Comm user_comm);
  // Gives the private communicator back. It is not used afterwards.
  void close() { lease_.comm.reset(); }

  // Of an open channel:
  MpiComm& comm() { return *comm_; }
  // The plan of a row for elements of this type, made once.
  struct Program {
    Plan plan;
    PlanFacts facts;
  };
  const Program& program(const PlanRow& row, kernels::Element element);
  // Segments of a call of this plan in flight, so that they have tags enough. The same on all ranks.
  int lanes_of(const Plan& plan) const {
    return std::min(lanes_, (CallOrder::kTagsPerWindow - 1) / plan.rounds);
  }
  int first_tag(int window) const { return lease_.first_tag + window * CallOrder::kTagsPerWindow; }

 private:
  void take(const Nodes& nodes);

  static constexpr int kMaxLanes = 16;  // fewer for a plan of many rounds: lanes_of
  static_assert(static_cast<int>(CallOrder::kWindows) * CallOrder::kTagsPerWindow == Lease::kTags);

  std::optional<MpiComm> comm_;
  Lease lease_;
  std::array<bool, kUses> refused_{};  // by MPI, for ever
  int lanes_ = 4;                      // segments in flight; the same on all ranks
  std::optional<int> per_node_;        // of Ranks, once asked for; the same on all ranks
  std::map<std::pair<std::uint16_t, int>, Program> programs_;  // by row and ranks per node
};

}  // namespace mq
