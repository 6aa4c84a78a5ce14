// The opening of collective functions that are no reductions: MPIQ_Residual_flush and its relatives. They
// begin as reductions do, so that a rank that is in another function is an error on all ranks, and nobody
// waits in MPI for a rank that is elsewhere.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string_view>

#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/turn.hpp"

namespace mq {

// Held until the function is over: another thread's call on the communicator comes after it.
class Meeting {
 public:
  // Collective over comm, an intracommunicator. Ok if all ranks are in the function of this name; else an
  // error on every rank, which names what two of them are in.
  Status open(MPI_Comm comm, std::string_view function, CommState::Initial initial);
  // Of comm; null on one rank, or where the library stays out of the way.
  CommState* state() const { return state_.get(); }

 private:
  std::shared_ptr<CommState> state_;
  std::optional<Turn> turn_;
};

}  // namespace mq
