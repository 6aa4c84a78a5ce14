// Waiting for ranks that may never come because they run without the library. And what a program can be told
// in no other way. The one place where the library itself writes a line: a program that hangs, or ends,
// without a word cannot be helped otherwise.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Completes the request of a collective call on comm. If that takes longer than MPIQ_WATCHDOG seconds, says
// so once on stderr, and goes on waiting. why: "at the first large sum"; question: what may be wrong.
Status wait_watched(MPI_Comm comm, MPI_Request& request, const char* why, const char* question);

// Says so on stderr unless MPIQ_WATCHDOG is 0: requests of this rank were not completed, and no call is left
// that could return it. Before MPI is finalized.
void say_unfinished(std::size_t requests);

}  // namespace mq
