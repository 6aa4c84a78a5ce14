// The states of all communicators of this process: MPI attributes lead from a communicator to its state, and a hook at
// MPI_Finalize gives back what the library still holds. After it the library leaves every call to MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mpi_quant/base/status.hpp"

namespace mq {

class CommState;

// The state of comm or null. Local.
CommState* find_state(MPI_Comm comm);
// Room for one more state. Local. Throws std::bad_alloc.
void make_room_for_state();
// Makes this the state of comm. After watch_finalize() and make_room_for_state(). Local.
Status register_state(MPI_Comm comm, std::shared_ptr<CommState> state);

// MPI_Init has been called, and MPI_Finalize has not begun.
bool is_mpi_usable();
// Makes sure that what the library holds of MPI's is given back when MPI_Finalize begins. Local.
Status watch_finalize();
// To be run then, before anything is given back: communication is still possible. Once.
void at_finalize(void (*run)());
// Requests that were not completed when MPI_Finalize began.
std::size_t unfinished_requests();

// Keeps rules for the first use of comm, in place of MPIQ_POLICY. Local; all ranks should have the same. An error if that use
// was before.
Status keep_rules(MPI_Comm comm, std::string_view rules);
// The rules that were kept, or null.
const std::string* kept_rules(MPI_Comm comm);

// What all communicators hold now.
struct HeldMemory {
  std::uint64_t scratch_bytes = 0, residual_bytes = 0;
};
HeldMemory held_memory();

}  // namespace mq
