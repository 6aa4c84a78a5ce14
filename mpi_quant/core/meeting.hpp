// The opening of collective functions that are no reductions: MPIQ_Residual_flush and its relatives. They
// begin as reductions do. So if a rank is in another function, all ranks get an error, and no rank waits in
// MPI for one that is elsewhere.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string_view>

#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/turn.hpp"

namespace mq {

// To be kept until the function is over. Calls of other threads on the communicator wait for that.
class Meeting {
 public:
  // Collective over comm, an intracommunicator. Ok if all ranks are in the function of this name. Otherwise
  // an error on every rank, which names the functions of two of them.
  Status open(MPI_Comm comm, std::string_view function, CommState::Initial initial);
  // The state of comm. Null on one rank, or where the library must not act.
  CommState* state() const { return state_.get(); }
  // The turn on comm. There is one if there is a state.
  const Turn& turn() const { return *turn_; }

 private:
  std::shared_ptr<CommState> state_;
  std::optional<Turn> turn_;
};

}  // namespace mq
