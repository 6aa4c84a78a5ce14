// The library's own communicators. The ranks of a program's communicator exchange the library's messages over
// one. MPI has few communicators (MPICH some 2,000). So all communicators of the program with the same ranks
// in the same order share one. Each of them has its own tags there, so a message of one is never taken for a
// message of another, in whatever order the ranks use them. MPI's collectives need one order of all calls. A
// communicator that needs collectives therefore does not share.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/mpi_comm.hpp"

namespace mq {

enum class Use : std::uint8_t {
  messages,  // calls of an unmodified program: messages within kTags tags
  all,       // MPIQ_ functions: any tag, and MPI's collectives
};
inline constexpr int kUses = 2;

// The nodes of a communicator.
struct Nodes {
  int ranks = 1;     // ranks of the communicator on this rank's node, as far as MPI tells
  int per_node = 1;  // Ranks::per_node of plan.hpp; the same on all ranks
};

// Freed with its last lease.
class PrivateComm {
 public:
  PrivateComm() = default;
  ~PrivateComm();
  PrivateComm(const PrivateComm&) = delete;
  PrivateComm& operator=(const PrivateComm&) = delete;

  MPI_Comm handle = MPI_COMM_NULL;
  MPI_Group ranks = MPI_GROUP_NULL;
  std::int64_t id = 0;  // the same on all its ranks; differs from all others of the same ranks
  // Known in two cases. If the launcher does not say how many ranks a node has: a rank that waits has to know
  // that. And with Use::all: its calls may name a plan that depends on the nodes.
  std::optional<Nodes> nodes;
  std::atomic<int> leases = 1;  // leases that were ever given; only rank 0's number counts
};

struct Lease {
  static constexpr int kTags = 32000;       // less than the least MPI_TAG_UB, 32767
  std::shared_ptr<const PrivateComm> comm;  // null: MPI has no communicator left
  Use use = Use::messages;
  int first_tag = 0;  // the first of its tags, which no other lease of comm ever has
  int threads = 1;    // the greatest MPIQ_THREADS of any rank
};

// Collective over user_comm. The outcome is the same on all ranks, except after an error of MPI. If ranks
// come with different uses, it is an error.
Result<Lease> lease(MPI_Comm user_comm, Use use);
// The error if there is no communicator.
Status no_communicator();

// Collective. Needs one more communicator for a moment. If MPI has none left, each rank counts as a node.
Result<Nodes> nodes_of(MPI_Comm user_comm);
// How ranks of a node wait on which there are so many, or more if the launcher says so. The cores are those
// that this rank may use.
Waiting waiting_of(int ranks);

}  // namespace mq
