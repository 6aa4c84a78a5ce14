// How the ranks of one communicator exchange the library's messages. It holds the private communicator, which
// is leased at the first use that needs one, and the plans for its ranks. Most communicators of a program
// never open a channel.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/private_comm.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

class Channel {
 public:
  // True if it is open for this use.
  bool serves(Use use) const { return comm_.has_value() && lease_.use >= use; }
  bool is_open() const { return comm_.has_value(); }
  // True if MPI had no communicator left when one was asked for.
  bool was_refused() const { return refused_[0] || refused_[1]; }

  // Collective if the channel does not serve this use yet; before that, all ranks must have agreed that they
  // are here. False on all ranks if MPI has no communicator left for this use. The answer does not change
  // later.
  Result<bool> open(MPI_Comm user_comm, Use use);
  bool is_refused(Use use) const { return refused_[static_cast<std::size_t>(use)]; }
  bool knows_nodes() const { return per_node_.has_value(); }
  int per_node() const { return per_node_.value_or(1); }
  // Collective if the nodes of the ranks are not known yet. The channel must be open.
  Status find_nodes(MPI_Comm user_comm);
  // Gives the private communicator back. It must not be used afterwards.
  void close() { lease_.comm.reset(); }

  // For an open channel:
  MpiComm& comm() { return *comm_; }
  // World rank of rank 0: different for disjoint groups.
  std::uint64_t first_rank() const { return first_rank_; }
  struct PlannedCall {
    using Key = std::tuple<std::uint16_t, int, bool, bool>;  // row, ranks per node, encodes_own, carries_own
    Key key;
    int root = 0;
    Plan plan;
    PlanIndex index;
  };
  // Puts the plan of this row for elements of this type into `planned`, unless it is there already from the
  // call before. encodes_own, carries_own and root: see Ranks. The channel keeps the last plan of each row,
  // and makes a new one for another root. Calls in flight may have other roots, so each holds its plan.
  void plan_call(const PlanRow& row, kernels::Element element, bool encodes_own, bool carries_own, int root,
                 std::shared_ptr<const PlannedCall>& planned);
  // How many segments of a call with this plan may be in flight on the processor, and how many have tags of
  // their own: a multiple of that. The same on all ranks.
  std::tuple<int, int> segments_of(const Plan& plan) const {
    const int room = (CallOrder::kTagsPerWindow - 1) / tags_of(plan), pipelines = std::min(pipelines_, room);
    return {pipelines, std::max(1, std::min(kTagSegments, room) / pipelines) * pipelines};
  }
  int first_tag(int window) const { return lease_.first_tag + window * CallOrder::kTagsPerWindow; }

 private:
  void take(const Nodes& nodes);

  static constexpr int kMaxPipelines = 16;  // fewer if a plan has many rounds: segments_of
  static constexpr int kTagSegments = 32;   // so many segments may be in flight on a device
  static_assert(static_cast<int>(CallOrder::kWindows) * CallOrder::kTagsPerWindow == Lease::kTags);

  std::optional<MpiComm> comm_;
  Lease lease_;
  std::array<bool, kUses> refused_{};  // MPI has no communicator for this use; never reset
  int pipelines_ = 4;                  // segments in flight; the same on all ranks
  std::uint64_t first_rank_ = 0;       // in MPI_COMM_WORLD
  std::optional<int> per_node_;        // Ranks::per_node, once it is known; the same on all ranks
  std::map<PlannedCall::Key, std::shared_ptr<const PlannedCall>> planned_calls_;
};

}  // namespace mq
