// The agreement of functions that are collective but not on the critical path: one reduction in the good
// case, and in the bad one as many messages as it takes to tell every rank the reason. (agree.hpp is the fast
// one of an allreduce.) Collectives only, so it may run on the program's own communicator.
#pragma once

#include <mpi.h>

#include <string_view>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Collective over comm. Ok if no rank is in trouble and all brought the same facts, a list of lines that each
// end with '\0'. Else an error on every rank: of a rank in trouble its own, of the others what the first such
// rank says; or the first line that differs, of rank 0 and of the first rank that has another one.
Status unanimous(MPI_Comm comm, const Status& trouble, std::string_view facts);

}  // namespace mq
