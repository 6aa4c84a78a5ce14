// The agreement for functions that are collective but not on the critical path. If all is well it takes one
// reduction; otherwise as many messages as it takes to tell every rank the reason. (agree.hpp has the fast
// agreement of an allreduce.) It uses collectives only, so it may run on the program's own communicator.
#pragma once

#include <mpi.h>

#include <string_view>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective over comm. Ok if no rank has a local error and all bring the same facts: a list of lines, each
// with a null character at its end. Otherwise an error on every rank. A rank with a local error gets its own;
// the others get the error of the first such rank. If facts differ, the error shows the first line that does,
// as it is on rank 0 and on the first rank that has another one.
//
// wait completes the request of the first reduction, after which all ranks are known to be in it. In a call of a program pass
// wait_in_call of watchdog.hpp: another rank may come only after a call in flight, which this rank has to advance.
Status wait_for_ranks(MPI_Comm comm, MPI_Request& request);
Status collective_check(MPI_Comm comm, const Status& local_error, std::string_view facts,
                        Status (*wait)(MPI_Comm, MPI_Request&) = &wait_for_ranks);

}  // namespace mq
