// MPI_Allreduce of an unmodified program, from top to bottom:
//
//   classify   Is it a sum of floats, large enough, on an intracommunicator of several ranks inside
//              MPI_COMM_WORLD? MPI makes these facts equal on all ranks. If not, MPI reduces.
//   policy     May any rank compress it, by the policy that the ranks agreed on at the first such sum of the
//              communicator? If not, MPI reduces.
//   choose     Would this rank compress it? This also depends on what only this rank knows: call site,
//              MPI_Pcontrol, a guard that has tripped.
//   identify   Which residual belongs to it, if the rule asks for feedback?            identity.hpp
//   operate    All ranks learn what each has chosen. If they differ, MPI reduces.      allreduce.hpp
//   guard      Some calls are compared with the exact sum.                             guard.hpp
//   note       Records how the call ended, if a report is wanted.                      record.hpp
#pragma once

#include "mpi_quant/base/stub.h"
#include "mpi_quant/core/allreduce.hpp"

namespace mq {

// Makes the call and returns its MPI error code.
int intercepted_allreduce(const Call& call);
// Counts a call of another function, which the stub makes, if a report is wanted. Local.
void count_call(mpiq_counted what, const Call& call) noexcept;
}  // namespace mq
