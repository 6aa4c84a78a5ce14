// Waits for ranks that may never come because they run without the library, and prints what a program can be
// told in no other way. Apart from reports and the preload library, the library writes to stderr only here:
// otherwise a program would hang or end without a word.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Completes the request of a collective call on comm. If that takes longer than MPIQ_WATCHDOG seconds, it
// says so once on stderr and goes on waiting. why: "at the first large sum"; question: what may be wrong.
Status wait_watched(MPI_Comm comm, MPI_Request& request, const char* why, const char* question);

// The same, for at most patience_s seconds. False: the request is not complete, and stays active.
Result<bool> wait_watched(MPI_Comm comm, MPI_Request& request, const char* why, const char* question,
                          double patience_s);

// The same for the first reduction of a collective_check().
Status wait_in_call(MPI_Comm comm, MPI_Request& request);

// Says on stderr that requests of this rank were not completed, when no call is left that could return the
// error. Says nothing if MPIQ_WATCHDOG is 0. To be called before MPI is finalized.
void say_unfinished(std::size_t requests);

}  // namespace mq
