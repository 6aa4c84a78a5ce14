// Collectives of an unmodified program: what the preload library adds to the road of every call
// (core/allreduce.hpp). It tells the core what the program has said by MPI_Pcontrol and where it called, and
// records how the call ended.
#pragma once

#include <optional>

#include "mpi_quant/base/stub.h"
#include "mpi_quant/core/request.hpp"

namespace mq {

// Makes the call and returns its MPI error code.
int intercepted_call(const Call& call);
// The same for a reduce-scatter, or for an allgather with these arguments. given: the arguments but for the
// counts. form: the stub makes the call in this form, and it is counted here.
int intercepted_parts(const Call& given, const PartCounts& counts, const GatherArguments* gather,
                      std::optional<mpiq_counted> form);
// The same for a broadcast, from recvbuf of the root, or a reduction to the root: given.collective says
// which.
int intercepted_rooted(const Call& given, int root, std::optional<mpiq_counted> form);
// Counts a call that the stub has made in this form. To be called only if a report is wanted. Local.
void count_call(mpiq_counted form, const Call& call) noexcept;
}  // namespace mq
