// The agreement of functions that are collective but not on the critical path: one reduction in the good
// case, and in the bad one as many messages as it takes to tell every rank the reason. (agree.hpp is the fast
// one of an allreduce.) Collectives only, so it may run on the program's own communicator.
#pragma once

#include <mpi.h>

#include <string_view>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective over comm. Ok if no rank has a local error and all brought the same facts, a list of lines that
// each end with a null character. Else an error on every rank: a rank with a local error gets its own, the
// others what the first such rank says. If facts differ the error shows the first line that does, of rank 0
// and of the first rank that has another one.
Status collective_check(MPI_Comm comm, const Status& local_error, std::string_view facts);

}  // namespace mq
