#include "mpi_quant/core/private_comm.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/own_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {
namespace {

struct Table {
  std::mutex mutex;
  std::vector<std::weak_ptr<PrivateComm>> shared;  // in the order they were made
};
Table& table() {
  static Immortal<Table> t;  // communicators may be freed while statics are destroyed
  return *t;
}

// How many leases a communicator has tags for.
int most_leases() {
  void* value = nullptr;
  int found = 0, most = 32767;
  if (PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found) == MPI_SUCCESS && found)
    most = *static_cast<const int*>(value);
  return most / Lease::kTags;
}

// The latest communicator that these ranks share. Null if there is none.
std::shared_ptr<PrivateComm> latest_of(MPI_Group ranks) {
  std::shared_ptr<PrivateComm> latest;
  const std::scoped_lock lock(table().mutex);
  for (const auto& shared : table().shared) {
    const std::shared_ptr<PrivateComm> one = shared.lock();
    int result = MPI_UNEQUAL;
    if (one != nullptr && (latest == nullptr || one->id > latest->id) &&
        PMPI_Group_compare(one->ranks, ranks, &result) == MPI_SUCCESS && result == MPI_IDENT)
      latest = one;
  }
  return latest;
}

void remember(const std::shared_ptr<PrivateComm>& made) {
  const std::scoped_lock lock(table().mutex);
  auto& shared = table().shared;
  std::erase_if(shared, [](const auto& one) { return one.expired(); });
  try {
    shared.push_back(made);
  } catch (const std::bad_alloc&) {
    return;  // no other communicator can share it then: the next one of these ranks gets a new one
  }
}

// What one rank brings. All memory is allocated before the first message.
struct Offer {
  std::shared_ptr<PrivateComm> known, made;
  int place = -1;       // number of the lease of `known`, set by rank 0
  std::int64_t id = 0;  // id of `made`, set by rank 0
};

Status prepare(MPI_Comm user_comm, Use use, Offer& offer) {
  static std::atomic<std::int64_t> ids = 0;
  int rank = 0;
  offer.made = std::make_shared<PrivateComm>();
  MQ_TRY(mpi_status(PMPI_Comm_rank(user_comm, &rank), "MPI_Comm_rank"));
  if (rank == 0) offer.id = ++ids;
  if (use != Use::messages) return {};
  MQ_TRY(mpi_status(PMPI_Comm_group(user_comm, &offer.made->ranks), "MPI_Comm_group"));
  offer.known = latest_of(offer.made->ranks);
  if (rank != 0 || offer.known == nullptr) return {};
  offer.place = offer.known->leases++;
  if (offer.place >= most_leases()) offer.known = nullptr;
  return {};
}

// Collective. `all` gets whether `mine` is true on all ranks.
Status agree(MPI_Comm comm, bool mine, bool& all) {
  const int one = mine ? 1 : 0;
  int least = 0;
  MQ_TRY(mpi_status(real_mpi().allreduce(&one, &least, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce"));
  all = least != 0;
  return {};
}

// Collective. Makes a new communicator, on all ranks or on none.
Status make(MPI_Comm user_comm, PrivateComm& made) {
  bool all = false;
  const bool mine = split_off(user_comm, made.handle).ok();
  MQ_TRY(agree(user_comm, mine, all));
  if (!all && mine) (void)PMPI_Comm_free(&made.handle);
  if (!all) made.handle = MPI_COMM_NULL;
  return {};
}

}  // namespace

PrivateComm::~PrivateComm() {
  int finalized = 0;  // a request may be freed after MPI_Finalize
  if (PMPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
  if (handle != MPI_COMM_NULL) (void)PMPI_Comm_free(&handle);
  if (ranks != MPI_GROUP_NULL && ranks != MPI_GROUP_EMPTY) (void)PMPI_Group_free(&ranks);
}

Result<Lease> lease(MPI_Comm user_comm, Use use) {
  Offer offer;
  const Status local_error = guarded_status([&] { return prepare(user_comm, use, offer); });
  enum { kKnown, kKnownToAll, kPlace, kId, kUse, kUseOfAll, kThreads, kUnknown, kNoMemory, kValues };
  const std::int64_t known = offer.known != nullptr ? offer.known->id : 0;
  const auto wanted = static_cast<std::int64_t>(use);
  const std::array<std::int64_t, kValues> mine{
      known,   -known,         offer.place,          offer.id,         wanted,
      -wanted, env()->threads, ranks_on_node() == 1, !local_error.ok()};
  std::array<std::int64_t, kValues> most{};
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(
      real_mpi().iallreduce(mine.data(), most.data(), kValues, MPI_INT64_T, MPI_MAX, user_comm, &request),
      "MPI_Iallreduce"));
  MQ_TRY(wait_watched(user_comm, request, "at the first compressed sum", "do all ranks make this call?"));
  MQ_TRY(local_error);
  if (most[kNoMemory] != 0) return Status{Code::peer_failed, "another rank has no memory for a communicator"};
  if (most[kUse] != -most[kUseOfAll])
    return Status{Code::mismatch, "some ranks call MPI_Allreduce and others a function of mpi_quant"};
  Lease out;
  out.use = use;
  out.threads = static_cast<int>(most[kThreads]);
  if (most[kKnown] != 0 && most[kKnown] == -most[kKnownToAll]) {
    out.comm = std::move(offer.known);
    out.first_tag = static_cast<int>(most[kPlace]) * Lease::kTags;
    return out;
  }
  MQ_TRY(make(user_comm, *offer.made));
  if (offer.made->handle == MPI_COMM_NULL) return out;
  offer.made->id = most[kId];
  if (use == Use::all || most[kUnknown] != 0) {
    const Result<Nodes> nodes = nodes_of(user_comm);
    if (!nodes.ok()) return nodes.status();
    offer.made->nodes = *nodes;
  }
  if (use == Use::messages) remember(offer.made);  // it is complete: others may share it from now on
  out.comm = std::move(offer.made);
  return out;
}

Status no_communicator() {
  return {Code::mpi_failed, "MPI has no communicator left for this library: free some of the program's"};
}

Result<Nodes> nodes_of(MPI_Comm user_comm) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(user_comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(user_comm, &size), "MPI_Comm_size"));
  Nodes nodes;
  MPI_Comm node = MPI_COMM_NULL;
  bool all = false;
  const bool mine = split_off_node(user_comm, node).ok();
  MQ_TRY(agree(user_comm, mine, all));
  int per_node = 1;
  if (all) {
    (void)PMPI_Comm_size(node, &nodes.ranks);
    const int range[2]{rank, -rank};
    int most[2]{rank, -rank};
    MQ_TRY(mpi_status(real_mpi().allreduce(range, most, 2, MPI_INT, MPI_MAX, node), "MPI_Allreduce"));
    const int first = -most[1];
    // The node's ranks must have the numbers n i, ..., n i + n - 1 in the communicator.
    if (most[0] - first + 1 == nodes.ranks && first % nodes.ranks == 0) per_node = nodes.ranks;
  }
  if (mine) (void)PMPI_Comm_free(&node);
  if (env()->node_ranks > 0) per_node = env()->node_ranks;
  const int range[2]{per_node, -per_node};
  int most[2]{1, -1};
  MQ_TRY(mpi_status(real_mpi().allreduce(range, most, 2, MPI_INT, MPI_MAX, user_comm), "MPI_Allreduce"));
  if (most[0] == -most[1] && size % most[0] == 0) nodes.per_node = most[0];
  return nodes;
}

Waiting waiting_of(int ranks) {
  if (env().ok() && env()->sleeps) return Waiting::sleeps;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool is_crowded =
      sched_getaffinity(0, sizeof cores, &cores) != 0 || std::max(ranks, ranks_on_node()) > CPU_COUNT(&cores);
  return is_crowded ? Waiting::yields : Waiting::spins;
}

}  // namespace mq
