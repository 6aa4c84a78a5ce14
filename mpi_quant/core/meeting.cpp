#include "mpi_quant/core/meeting.hpp"

#include <mutex>

#include "mpi_quant/core/blocking_calls.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {

Status Meeting::open(MPI_Comm comm, std::string_view function, CommState::Initial initial) {
  int size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  if (size == 1) return {};
  const Result<CommState*> found = CommState::obtain(comm, initial);
  if (!found.ok()) return found.status();
  if (*found == nullptr) return {};
  state_ = (*found)->shared_from_this();
  turn_.emplace(*state_);
  RunningCall* run = nullptr;  // null: there is no private communicator yet
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->channel.is_open()) {
      MQ_TRY(state_->broken);
      run = &blocking_runs(*state_).one;
      run->prepare_meeting(signature_of_function(function), turn_->local_error());
      run->start();
    }
  }
  // Without a private communicator, reductions begin in the same way: see activate in blocking_calls.hpp.
  if (run == nullptr) return collective_check(comm, turn_->local_error(), function, wait_in_call);
  complete(*run);
  const std::scoped_lock lock(state_->mutex);
  return run->outcome().status;
}

}  // namespace mq
