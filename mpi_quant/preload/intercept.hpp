// MPI_Allreduce of an unmodified program, from top to bottom:
//
//   classify   facts that MPI makes equal on all ranks: a sum of floats, large enough, on an
//              intracommunicator of several ranks inside MPI_COMM_WORLD?            else MPI's own, untouched
//   policy     of the communicator, agreed at its first such sum; what may any rank come to?   nothing: MPI's
//   choose     by what this rank alone knows as well: call site, MPI_Pcontrol, a guard that has tripped
//   identify   whose residual it is, if the rule asks for feedback                             identity.hpp
//   operate    all ranks hear what each has chosen; where they differ the sum is MPI's         allreduce.hpp
//   guard      some calls are compared with the exact sum                                      guard.hpp
//   note       what became of it, if a report is wanted                                        record.hpp
#pragma once

#include "mpi_quant/base/front.h"
#include "mpi_quant/core/allreduce.hpp"

namespace mq {

// Makes the call and returns its MPI error code.
int intercepted_allreduce(const Call& call);
// A call of another kind, which the front makes: counted if a report is wanted. Local.
void count_call(mpiq_counted what, const Call& call) noexcept;
}  // namespace mq
