// The blocking call from top to bottom, and what a call is made of: its arguments, its options, its outcome. The decision is
// decide.hpp's, the run of a call call_run.hpp's; non-blocking and persistent calls are requests.hpp's.
#pragma once

#include <mpi.h>

#include <memory>
#include <new>
#include <optional>
#include <string>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

class CommState;

// The arguments of an allreduce, count widened once for MPI_Allreduce and its _c form alike.
struct Call {
  const void* sendbuf;
  void* recvbuf;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Op op;
  MPI_Comm comm;
};

// What the caller of MPIQ_Allreduce wants beside MPI's arguments.
struct CallOptions {
  std::optional<Method> method;  // in place of the policy's
  Key key;                       // of the residual; empty: no feedback
  double rows = 0, ld = 0;       // of the matrix the vector is, column by column; 0: none
  // Of vectors on a GPU: the program's stream that has made the input, and whether the result may be ready
  // only for what comes later in it.
  std::optional<void*> stream;
  bool stream_ordered = false;
  Status local_error;  // why this rank cannot take part; reported to all
  // Of MPI_Allreduce of an unmodified program. The key is then this rank's alone, and ranks that come with
  // different methods reduce exactly.
  bool may_fall_back = false;
  std::uint64_t safeguards = 0;  // hash of what else the ranks must agree on to compress
};

// What became of a call: an error, a result, or nothing yet because the reduction is MPI's to do.
struct Outcome {
  Status status;
  bool exact = false;
  bool split = false;  // exact because the ranks came with different methods
  // The ranks agreed and their codecs ran: on all ranks or on none. The status is then this rank's alone.
  bool ran = false;
};

// Runs one blocking call of a communicator, with the method chosen for it.
Outcome operate(CommState& state, const Call& call, const CallOptions& options, const Method& method);
// Starts MPI's own non-blocking reduction of a call, on this communicator.
Status start_exact(const Call& call, MPI_Comm comm, MPI_Request& request);
// A sum on one rank which MPI may not be able to do, of half-type elements or with a vector on a device:
// copies it. False if the call is something else.
Result<bool> copies_alone(const Call& call);

// MPIQ_Allreduce.
Outcome requested_allreduce(const Call& call, const CallOptions& options) noexcept;
// The exception boundary: whatever ran short of memory is an error like any other.
template <class F>
Outcome with_memory(const F& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return {{Code::no_memory, "out of memory"}, false};
  }
}
// MPI's own reduction of a call whose element type is known, if it has one of ours.
int exact_allreduce(const Call& call, std::optional<kernels::Element> element);
// The end of a call: raises the error, or lets MPI reduce. May not return, and may throw what an error
// handler throws.
int conclude(const Call& call, const Outcome& outcome);

}  // namespace mq
