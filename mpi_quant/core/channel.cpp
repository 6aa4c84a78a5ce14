#include "mpi_quant/core/channel.hpp"

#include <numeric>

#include "mpi_quant/plan/cost.hpp"

namespace mq {
namespace {

// The number in MPI_COMM_WORLD of the communicator's first rank: groups that share no rank have different
// ones. 0 if ranks of another world take part, which every rank sees.
Status find_first_rank(MPI_Comm comm, std::uint64_t& first) {
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int code = PMPI_Comm_group(comm, &group);
  if (code == MPI_SUCCESS) code = PMPI_Comm_group(MPI_COMM_WORLD, &world);
  int size = 0;
  if (code == MPI_SUCCESS) code = PMPI_Group_size(group, &size);
  constexpr int kPiece = 256;
  std::array<int, kPiece> ranks, numbers;
  for (int begin = 0; begin < size && code == MPI_SUCCESS; begin += kPiece) {
    const int n = std::min(kPiece, size - begin);
    std::iota(ranks.begin(), ranks.begin() + n, begin);
    code = PMPI_Group_translate_ranks(group, n, ranks.data(), world, numbers.data());
    if (code != MPI_SUCCESS) break;
    if (begin == 0) first = static_cast<std::uint64_t>(std::max(numbers[0], 0));
    if (std::find(numbers.begin(), numbers.begin() + n, MPI_UNDEFINED) == numbers.begin() + n) continue;
    first = 0;
    break;
  }
  if (group != MPI_GROUP_NULL) (void)PMPI_Group_free(&group);
  if (world != MPI_GROUP_NULL) (void)PMPI_Group_free(&world);
  return mpi_status(code, "MPI_Group_translate_ranks");
}

}  // namespace

Result<bool> Channel::open(MPI_Comm user_comm, Use use) {
  Result<Lease> taken = lease(user_comm, use);
  if (!taken.ok()) return taken.status();
  if (taken->comm == nullptr) {
    refused_[static_cast<std::size_t>(use)] = true;
    return false;
  }
  MQ_TRY(find_first_rank(user_comm, first_rank_));
  lease_ = std::move(*taken);
  comm_.emplace(lease_.comm->handle, waiting_of(1));
  if (lease_.comm->nodes) take(*lease_.comm->nodes);
  pipelines_ = std::clamp(lease_.threads, usual_pipelines(comm_->size()), kMaxPipelines);
  return true;
}

Status Channel::find_nodes(MPI_Comm user_comm) {
  if (per_node_) return {};
  const Result<Nodes> nodes = nodes_of(user_comm);
  if (!nodes.ok()) return nodes.status();
  take(*nodes);
  return {};
}

void Channel::take(const Nodes& nodes) {
  per_node_ = nodes.per_node;
  comm_.emplace(lease_.comm->handle, waiting_of(nodes.ranks));
}

void Channel::plan_call(const PlanRow& row, kernels::Element element, bool encodes_own, bool carries_own,
                        int root, std::shared_ptr<const PlannedCall>& planned) {
  // Raw frames hold elements of the compute type. For half types they would be twice as long as the vector.
  const int per_node = kernels::compute_element(element) == element ? this->per_node() : 1;
  const PlannedCall::Key key(row.id, per_node, encodes_own, carries_own);
  const auto fits = [&](const PlannedCall* of) {
    return of != nullptr && of->key == key && of->root == root;
  };
  if (fits(planned.get())) return;
  std::shared_ptr<const PlannedCall>& last = planned_calls_[key];
  if (!fits(last.get())) {
    Plan plan = row.make({comm_->rank(), comm_->size(), per_node, encodes_own, carries_own, root});
    PlanIndex index = index_of(plan);
    last = std::make_shared<const PlannedCall>(PlannedCall{key, root, std::move(plan), std::move(index)});
  }
  planned = last;
}

}  // namespace mq
