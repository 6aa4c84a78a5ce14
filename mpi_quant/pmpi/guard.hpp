// Guard mode: some compressed calls are made twice, exactly as well, and compared; where the error is over
// the rule's budget the program gets the exact sum, and the rule is given up on this communicator, on all
// ranks at the same call. Which calls: the first that a rule compresses and every N-th after it, counted
// alike on all ranks.
//
// The error is that of one call. With feedback what is missing now comes later, so that it overstates; a
// budget for such a rule is a bound on what may be late. What waited in the residual of the call is delivered
// with it; what waits in others of the rule comes with the next exact sum of each.
#pragma once

#include <cstdint>

#include "mpi_quant/allreduce.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/comm_state.hpp"

namespace mq {

struct Verdict {
  // Relative L2; Inf if a value that is not finite came out finite, or the other way round. < 0: the exact
  // sum has such values, which a method may have no room beside: nothing to judge.
  double error = 0;
  bool given_up = false;
  bool replaced = false;  // the exact sum is delivered: the rule is given up, or a rank has no result
  Status delivered;       // of it: ok if recvbuf has the exact sum on all ranks, else not ok on all
};

// Of f32 or f64 elements.
class GuardedCall {
 public:
  // Before the compressed call: keeps the input and the residual, if the call has one (else null), in host
  // memory. Not ok: no memory, or a device that cannot be read.
  Status prepare(const Call& call, kernels::Element element, const Residuals::Entry* residual);
  // After it. Collective over the communicator; all ranks get the same verdict. ran: what became of the call
  // on this rank. budget: 0 for none. had_keys: some rank may have had a residual, which is delivered with
  // the exact sum. An error: of MPI.
  Result<Verdict> judge(const Call& call, Status ran, double budget, bool had_keys);

 private:
  Status deliver(const Call& call, bool had_keys);

  Buffer exact_, waiting_, delivered_;               // delivered_: of a result on a device
  bool keeps_input_ = false, keeps_result_ = false;  // exact_ has the input; the result goes to delivered_
  std::size_t bytes_ = 0;
  kernels::Element element_ = kernels::Element::f32;
};

}  // namespace mq
