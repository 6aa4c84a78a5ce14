// What a program says through MPI_Pcontrol. This is standard MPI, so it needs few lines or none, and does
// nothing without this library.
//
//   MPI_Pcontrol(0)                              compress nothing from now on
//   MPI_Pcontrol(1)                              compress again
//   MPI_Pcontrol(MPIQ_PCONTROL, "key=layer 3")   names the residual of this thread's next large sum
//                               "step"           begins a step: positions are counted from here
//                               "exact", "end"   compress nothing up to the matching "end"
//                               "flush"          the next sum of each residual is exact and has all of it
//   MPI_Pcontrol(MPIQ_PCONTROL << 16 | k)        names key k, 0 to 65535, for Fortran
//
// A large sum is a sum of floats of at least 64 KiB, or 4 KiB if a rule says small. MPIQ_PCONTROL is 0x4D51.
// These are facts of one rank. If ranks say different things, the sum is exact. A flush that the ranks do not
// share delivers nothing, but it counts as done.
#pragma once

#include <cstdint>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/memory/control.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

// What all threads of this process have said so far.
Control control() noexcept;
// Returns the key that this thread has named for its next sum, and forgets it.
Key take_key() noexcept;

// The commands of all threads that obey() did not understand so far.
UnknownCommands unknown_commands() noexcept;

// Obeys one call of MPI_Pcontrol. command is null unless level is MPIQ_PCONTROL. An error means that it was
// not understood, and nothing was done.
Status obey(int level, const char* command);

}  // namespace mq
