// Waiting for ranks that may never come because they run without the library. The one place where the library
// itself writes a line: a program that hangs without a word cannot be helped otherwise.
#pragma once

#include <mpi.h>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Completes the request of a collective call on comm. If that takes longer than MPIQ_WATCHDOG seconds, says
// so once on stderr, and goes on waiting. why: "at the first large sum"; question: what may be wrong.
Status wait_watched(MPI_Comm comm, MPI_Request& request, const char* why, const char* question);

}  // namespace mq
