// The states of all communicators of this process. MPI attributes lead from a communicator to its state. A
// hook at MPI_Finalize gives back what the library still holds. After that the library leaves every call to
// MPI.
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

// The state of comm, or null. Local.
CommState* find_state(MPI_Comm comm);
// True if comm has had a state, also after MPI_Finalize has begun. Local.
bool had_state(MPI_Comm comm);
// Reserves memory for one more state. Local. Throws std::bad_alloc.
void make_room_for_state();
// Makes this the state of comm. watch_finalize() and make_room_for_state() must come before. Local.
Status register_state(MPI_Comm comm, std::shared_ptr<CommState> state);

// True from MPI_Init until MPI_Finalize begins.
bool is_mpi_usable();
// Makes sure that the library gives back its objects of MPI when MPI_Finalize begins. Local.
Status watch_finalize();
// Sets a function to run when MPI_Finalize begins, before anything is given back. It runs once and can still
// communicate. It returns whether it has reported unfinished_requests(); if not, they are said.
void at_finalize(bool (*run)());
// How many requests were not completed when MPI_Finalize began.
std::size_t unfinished_requests();

// Keeps rules for the first use of comm, in place of MPIQ_POLICY. Local, but all ranks should keep the same
// rules. An error if the first use is over.
Status keep_rules(MPI_Comm comm, std::string_view rules);
// The rules that were kept, or null.
const std::string* kept_rules(MPI_Comm comm);

// The memory that all communicators hold now.
struct HeldMemory {
  std::uint64_t scratch_bytes = 0, residual_bytes = 0;
};
HeldMemory held_memory();

}  // namespace mq
