// What an unmodified program, or one with a few lines more, says through MPI_Pcontrol: standard MPI, and
// nothing at all without this library.
//
//   MPI_Pcontrol(0)   MPI_Pcontrol(1)    compress nothing; go on
//   MPI_Pcontrol(MPIQ_PCONTROL, "key=layer 3")   name of the residual of this thread's next large sum
//                               "step"           begins a step: positions are counted from here
//                               "exact", "end"   compress nothing up to the matching "end"
//                               "flush"          the next sum of each residual is exact, and adds all of it
//   MPI_Pcontrol(MPIQ_PCONTROL << 16 | k)        key k, 0 to 65535, for Fortran
//
// Large: of floats, of at least 64 KiB, or 4 KiB where a rule says small. MPIQ_PCONTROL is 0x4D51. These are
// facts of one rank: where ranks say different things, the sum is exact, and a flush is over.
#pragma once

#include <cstdint>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/report/record.hpp"

namespace mq {

struct Control {
  bool off = false;        // compress nothing
  std::uint64_t step = 0;  // announced so far; 0: none
  std::uint64_t flush = 0;
};
// As of now; of all threads.
Control control() noexcept;
// The key for this thread's next sum, which it takes.
Key take_key() noexcept;

// What obey() did not understand so far, of all threads.
UnknownCommands unknown_commands() noexcept;

// One call of MPI_Pcontrol; command is null unless level is MPIQ_PCONTROL. An error: not understood, nothing
// done.
Status obey(int level, const char* command);

}  // namespace mq
