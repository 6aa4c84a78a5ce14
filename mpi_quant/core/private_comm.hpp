// The library's own communicators, over which the ranks of a communicator of the program exchange messages.
// MPI has few (MPICH some 2,000), so that the program's communicators of the same ranks in the same order
// share one: each has tags of its own there, and a message of one is never taken for that of another, in
// whatever order the ranks come to them. MPI's collectives need one order of all calls; who wants those has a
// communicator alone.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "mpi_quant/base/status.hpp"

namespace mq {

enum class Use : std::uint8_t {
  messages,  // MPI_Allreduce of an unmodified program: messages within kTags tags
  all,       // MPIQ_ functions: any tag, and MPI's collectives
};
inline constexpr int kUses = 2;

// The nodes of a communicator.
struct Nodes {
  int ranks = 1;     // of it on this rank's node, as far as MPI tells
  int per_node = 1;  // of plan.hpp's Ranks; the same on all ranks
};

// Freed with the last lease of it.
class PrivateComm {
 public:
  PrivateComm() = default;
  ~PrivateComm();
  PrivateComm(const PrivateComm&) = delete;
  PrivateComm& operator=(const PrivateComm&) = delete;

  MPI_Comm handle = MPI_COMM_NULL;
  MPI_Group ranks = MPI_GROUP_NULL;
  std::int64_t id = 0;  // the same on all its ranks, and no other of the same ranks has it
  // Known where the launcher does not say how many ranks there are on a node, which a rank that waits has to
  // know, and for Use::all, whose calls may name the plan that goes by them.
  std::optional<Nodes> nodes;
  std::atomic<int> leases = 1;  // ever given; the number of rank 0 counts
};

struct Lease {
  static constexpr int kTags = 32000;       // less than the least MPI_TAG_UB, 32767
  std::shared_ptr<const PrivateComm> comm;  // null: MPI has no communicator left
  Use use = Use::messages;
  int first_tag = 0;  // of those that no other lease of comm has, ever
  int threads = 1;    // the greatest MPIQ_THREADS of any rank
};

// Collective over user_comm; the same outcome on all ranks but for an error of MPI. Ranks that come for
// different uses get an error.
Result<Lease> lease(MPI_Comm user_comm, Use use);
// What to say where there is none.
Status no_communicator();

// Collective. Needs a communicator for a moment; where MPI has none left the nodes are not to count.
Result<Nodes> nodes_of(MPI_Comm user_comm);
// Whether so many ranks on this node, or those of the program as far as the launcher tells, are more than the
// cores that this one may use.
bool is_crowded(int ranks);

}  // namespace mq
