#include "mpi_quant/sparse/blocking.hpp"

#include <algorithm>
#include <new>

#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/blocking_calls.hpp"
#include "mpi_quant/engine/agree.hpp"

namespace mq {

BlockingSparse::~BlockingSparse() { leave(); }

Status BlockingSparse::begin(MPI_Comm user_comm, double timeout_s) {
  timeout_s_ = timeout_s;
  share_.begin();
  int inter = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(user_comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return {Code::bad_argument, "comm is an intercommunicator"};
  MQ_TRY(mpi_status(PMPI_Comm_size(user_comm, &size), "MPI_Comm_size"));
  if (size == 1) {
    comm_.emplace(MpiComm(user_comm, Waiting::spins));
    return {};
  }
  const Result<CommState*> found = CommState::obtain(user_comm, CommState::Initial::environment);
  if (!found.ok()) return found.status();
  if (*found == nullptr)
    return {Code::bad_argument, "MPI is not initialised by MPI_Init, or being finalized"};
  if ((*found)->stats.exact_mode == MPIQ_EXACT_VERSION)
    return {Code::mismatch, "the ranks run incompatible versions of mpi_quant"};
  state_ = (*found)->shared_from_this();
  turn_.emplace(*state_);
  const std::scoped_lock lock(state_->mutex);
  MQ_TRY(state_->broken);
  const Result<bool> active = activate(*state_, user_comm, Use::all);
  MQ_TRY(active.status());
  if (!*active) return no_communicator();
  comm_.emplace(state_->channel.comm());
  sparse_state(*state_).memory.reset();
  return {};
}

// Waits until a window of tags is free.
Status BlockingSparse::enter() {
  const Deadline deadline(timeout_s_);
  for (;;) {
    {
      const std::scoped_lock lock(state_->mutex);
      MQ_TRY(state_->broken);
      if (state_->order.enter(position_)) {
        first_tag_ = state_->channel.first_tag(position_.window);
        return {};
      }
    }
    comm_->idle();
    if (deadline.over()) return {Code::timed_out, "earlier calls did not end in time (mpiq_timeout)"};
  }
}

void BlockingSparse::leave() {
  if (state_ == nullptr) return;
  const std::scoped_lock lock(state_->mutex);
  state_->order.leave(position_);
}

// Compares the signatures and numbers of all ranks. The agreement is in the communicator's state, because
// after an error its messages may stay in flight for ever.
Status BlockingSparse::compare_signatures(const Signature& signature, const Maxima& numbers) {
  Agreement<MpiComm>& agreement = sparse_state(*state_).agreement;
  MQ_TRY(agreement.start(comm_->plain(), signature, numbers, first_tag_ + kTags));
  const Deadline deadline(timeout_s_);
  for (std::size_t idle = 0; !agreement.done();) {
    bool moved = false;
    MQ_TRY(agreement.advance(comm_->plain(), traffic_.messages_sent, moved));
    if (moved) continue;
    comm_->idle();
    if (++idle % 64 == 0 && deadline.over())
      return {Code::timed_out, "not all ranks joined a sparse reduction in time (mpiq_timeout)"};
  }
  return {};
}

Status BlockingSparse::agree(Signature signature, const Status& own, Maxima& numbers) {
  const Status local_error = turn_ && !turn_->local_error().ok() ? turn_->local_error() : own;
  signature.error_code = static_cast<std::uint16_t>(local_error.code());
  if (state_ == nullptr) return local_error;
  {
    const std::scoped_lock lock(state_->mutex);
    position_ = state_->order.next();
    signature.sequence = position_.number;
  }
  id_ = hash_of(signature);
  MQ_TRY(enter());
  MQ_TRY(compare_signatures(signature, numbers));
  MQ_TRY(local_error);  // this rank's own message comes first
  const Hello& summary = sparse_state(*state_).agreement.summary();
  MQ_TRY(agreed_status(summary));
  numbers = summary.maxima;
  return {};
}

Status BlockingSparse::network(sparse::Network& network) {
  if (state_ == nullptr) return {};
  SparseState& known = sparse_state(*state_);
  if (!known.network) try {
      sparse::Network measured;
      MQ_TRY(sparse::measure_network(
          *comm_, first_tag_, Deadline(timeout_s_), own_memory_, traffic_,
          [&](void* vector, std::size_t count) { return dense(vector, count, MPI_FLOAT, MPI_SUM); },
          measured));
      known.network = measured;
    } catch (const std::bad_alloc&) {  // this rank no longer follows the schedule
      return {Code::mpi_failed, "out of memory"};
    }
  network = *known.network;
  return {};
}

Status BlockingSparse::dense(void* vector, std::size_t count, MPI_Datatype datatype, MPI_Op op) {
  if (state_ == nullptr) return {};
  for (bool turn = false; !turn;) {
    {
      const std::scoped_lock lock(state_->mutex);
      turn = state_->order.may_reduce(position_);
    }
    if (!turn) comm_->idle();
  }
  // In pieces whose count fits in an int, for every MPI.
  int bytes = 1;
  MQ_TRY(mpi_status(PMPI_Type_size(datatype, &bytes), "MPI_Type_size"));
  constexpr std::size_t kMost = std::size_t{1} << 30;
  for (std::size_t begin = 0; begin < count; begin += kMost) {
    auto* const at = static_cast<std::byte*>(vector) + begin * static_cast<std::size_t>(bytes);
    const auto n = static_cast<MPI_Count>(std::min(kMost, count - begin));
    MQ_TRY(reduce_piece({MPI_IN_PLACE, at, n, datatype, op, comm_->handle()}));
  }
  return {};
}

Status BlockingSparse::reduce_piece(const Call& call) {
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(start_exact(call, comm_->handle(), request));
  for (int done = 0; !done;) {  // all ranks have joined, so the reduction completes
    MQ_TRY(mpi_status(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (!done) comm_->idle();
  }
  return {};
}

void BlockingSparse::add_traffic(const Traffic& before, const Traffic& after) {
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
  if (broken(status)) {
    state_->set_broken(status);
    sparse_state(*state_).memory.leak();
    own_memory_.leak();
  }
  return status;
}

}  // namespace mq
