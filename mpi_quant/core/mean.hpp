// Calls whose result is the mean over the ranks (info mpiq_op=avg): MPI has no such operation.
#pragma once

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/request.hpp"

namespace mq {

// Makes the call a mean, if its options ask for one. What cannot be one gets a local error: other operations
// than MPI_SUM, elements that the library does not know, collectives that add nothing, intercommunicators.
// The ranks of an intercommunicator exchange no message of this library, so there the error is this rank's
// only.
void take_mean(Call& call, CallOptions& options) noexcept;

// Divides the sum that MPI, or several calls of this library, have left in recvbuf. Nothing is done for a
// call that is no mean, or where this rank has no result. recvbuf may be on a device. There are no messages
// left to tell other ranks of an error. Only a failing device is one; the division needs no memory.
Status divide_result(const Call& call) noexcept;

}  // namespace mq
