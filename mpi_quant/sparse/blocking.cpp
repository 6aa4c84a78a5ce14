#include "mpi_quant/sparse/blocking.hpp"

#include "mpi_quant/agree.hpp"
#include "mpi_quant/allreduce.hpp"
#include "sparse_allreduce/measure.hpp"

namespace mq {

BlockingSparse::~BlockingSparse() { leave(); }

Status BlockingSparse::begin(MPI_Comm user_comm) {
  int inter = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(user_comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return {Code::bad_argument, "comm is an intercommunicator"};
  MQ_TRY(mpi_status(PMPI_Comm_size(user_comm, &size), "MPI_Comm_size"));
  if (size == 1) {
    comm_.emplace(MpiComm(user_comm, false));
    return {};
  }
  const Result<CommState*> found = CommState::obtain(user_comm, CommState::Initial::environment);
  if (!found.ok()) return found.status();
  if (*found == nullptr)
    return {Code::bad_argument, "MPI is not initialised by MPI_Init, or being finalized"};
  if ((*found)->stats.exact_mode == 2)
    return {Code::mismatch, "the ranks run incompatible versions of mpi_quant"};
  state_ = (*found)->shared_from_this();
  const std::scoped_lock lock(state_->mutex);
  MQ_TRY(state_->broken);
  MQ_TRY(state_->activate(user_comm));
  comm_.emplace(*state_->comm);
  if (state_->sparse == nullptr) state_->sparse = std::make_unique<SparseState>();
  state_->sparse->memory.reset();
  return {};
}

// Until a window of tags is free.
Status BlockingSparse::enter(std::uint32_t sequence) {
  for (;;) {
    {
      const std::scoped_lock lock(state_->mutex);
      MQ_TRY(state_->broken);
      const int window = state_->enter(place_, sequence);
      if (window >= 0) {
        first_tag_ = window * CommState::window_tags;
        entered_ = true;
        return {};
      }
    }
    comm_->idle();
  }
}

void BlockingSparse::leave() {
  if (!entered_) return;
  entered_ = false;
  const std::scoped_lock lock(state_->mutex);
  state_->leave(sequence_);
}

Status BlockingSparse::agree(Signature signature, const Status& trouble, double& proposal) {
  signature.trouble = static_cast<std::uint16_t>(trouble.code());
  if (state_ == nullptr) return trouble;
  {
    const std::scoped_lock lock(state_->mutex);
    sequence_ = signature.sequence = state_->sequence++;
  }
  id_ = hash_of(signature);
  MQ_TRY(enter(sequence_));
  // Stays where it is: after an error its messages may still be coming.
  auto agreement = std::make_unique<Agreement<PatientComm>>();
  Status status = agreement->start(*comm_, signature, proposal, first_tag_ + kTags);
  while (status.ok() && !agreement->done()) {
    bool moved = false;
    status = agreement->advance(*comm_, traffic_.messages_sent, moved);
    if (status.ok() && !moved) comm_->idle();
  }
  if (!status.ok()) {
    (void)agreement.release();
    return status;
  }
  MQ_TRY(trouble);  // this rank's own words first
  MQ_TRY(verdict(agreement->summary()));
  proposal = agreement->summary().proposal;
  return {};
}

Status BlockingSparse::network(sparse::Network& network) {
  if (state_ == nullptr) return {};
  SparseState& known = *state_->sparse;
  if (!known.network) {
    sparse::Network measured;
    MQ_TRY(sparse::measure_network(
        *comm_, first_tag_, sparse::Deadline(), own_memory_, traffic_,
        [&](void* vector, std::size_t count) { return dense(vector, count, MPI_FLOAT, MPI_SUM); }, measured));
    known.network = measured;
  }
  network = *known.network;
  return {};
}

Status BlockingSparse::dense(void* vector, std::size_t count, MPI_Datatype datatype, MPI_Op op) {
  if (state_ == nullptr) return {};
  for (bool turn = false; !turn;) {
    {
      const std::scoped_lock lock(state_->mutex);
      turn = state_->may_reduce(sequence_);
    }
    if (!turn) comm_->idle();
  }
  const Call call{MPI_IN_PLACE, vector, static_cast<MPI_Count>(count), datatype, op, comm_->handle()};
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(start_exact(call, comm_->handle(), request));
  for (int done = 0; !done;) {
    MQ_TRY(mpi_status(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (!done) comm_->idle();
  }
  return {};
}

void BlockingSparse::book(const sparse::Traffic& before, const sparse::Traffic& after) {
  traffic_.sent_bytes += after.sent_bytes - before.sent_bytes;
  traffic_.received_bytes += after.received_bytes - before.received_bytes;
  traffic_.messages_sent += after.messages_sent - before.messages_sent;
}

Status BlockingSparse::end(Status status) {
  leave();
  if (state_ == nullptr) return status;
  const std::scoped_lock lock(state_->mutex);
  MPIQ_Stats& stats = state_->stats;
  ++stats.sparse_calls;
  stats.failed_calls += !status.ok();
  stats.wire_bytes_sent += traffic_.sent_bytes;
  stats.wire_bytes_received += traffic_.received_bytes;
  stats.messages_sent += traffic_.messages_sent;
  if (sparse::broken(status)) {
    state_->set_broken(status);
    state_->sparse->memory.leak();
    own_memory_.leak();
  }
  return status;
}

}  // namespace mq
