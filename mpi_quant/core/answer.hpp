// The end of the road: the result, the error handler, or MPI's own reduction. No other file of the library
// calls MPI's reductions for a program's vectors.
#pragma once

#include <mpi.h>

#include <optional>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/request.hpp"
#include "mpi_quant/policy/reason.hpp"

namespace mq {

// Is told when MPI has reduced a call, for `auto`.
class CallClock {
 public:
  virtual void dense_took(std::size_t bytes, double begin_s) noexcept = 0;

 protected:
  ~CallClock() = default;
};

// How a call ended.
struct Outcome {
  Status status;
  bool delivered = false;  // recvbuf has the result. If not, and the status is ok, MPI has to reduce
  Reason reason = Reason::compressed;
  // The ranks agreed and their codecs ran, on all ranks or on none. The status is then local to this rank.
  bool ran = false;
  // The call ran without its memory rule, because a rank keeps no arrays for it.
  bool without_memory = false;
  // How far an element of the result may be from the exact sum, by the promise of the method, beside what
  // ordinary sums round. 0: the method promises nothing, or the call has a residual.
  double promised = 0;
  // If `auto` has left the call to MPI: who is told how long MPI took, and when MPI's part began. Null:
  // nobody.
  CallClock* clock = nullptr;
  double begin_s = 0;
};
inline Outcome failed(Status why) { return {std::move(why), false, Reason::failed}; }
inline Outcome left_to_mpi(Reason why) { return {{}, false, why}; }
// MPI's sum has taken the place of the result: this is how it ended.
inline Outcome replaced(Outcome outcome, Status delivered, Reason why) {
  outcome.reason = delivered.ok() ? why : Reason::failed;
  outcome.status = std::move(delivered);
  outcome.delivered = true;
  return outcome;
}

// Ends a call: raises its error, or lets MPI reduce if nothing is delivered. May not return, and may throw
// what an error handler throws. Returns the MPI error code.
int answer(const Call& call, const Outcome& outcome);

// MPI's own collective: as answer() makes it. start_exact: not of several vectors, by a function of MPI that
// returns at once, on this communicator.
int exact_call(const Call& call, std::optional<kernels::Element> element);
Status start_exact(const Call& call, MPI_Comm comm, MPI_Request& request);
// A blocking sum of vectors on the host, on the call's communicator, as if the program had made it.
Status exact_sum(const void* in, void* out, const Call& call);
// Copies a sum on one rank that MPI may not be able to make: of half-type elements, or with a vector on a
// device. False if the call is something else.
Result<bool> copies_alone(const Call& call);

}  // namespace mq
