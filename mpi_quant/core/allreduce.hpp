// The blocking call from top to bottom, and what a call is made of: arguments, options, outcome. decide.hpp
// makes the decision, call_run.hpp runs a call, and requests.hpp has non-blocking and persistent calls.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "mpi_quant/policy/reason.hpp"

namespace mq {

class CommState;

// Of the memory rule of a method and its parameters; 0 for carry.
inline std::uint64_t memory_hash(const Method& method) {
  return method.memory == nullptr ? 0 : Hash{}.add(method.memory->id).add(method.memory_params.value).value();
}

// The arguments of an allreduce. count is wide enough for MPI_Allreduce and its _c form.
struct Call {
  const void* sendbuf;
  void* recvbuf;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Op op;
  MPI_Comm comm;
};

// The vector as a matrix, stored column by column, with ld elements from one column to the next (info mpiq_matrix).
// Codecs get it in their parameters "rows", "columns" and "ld", as far as they have them. So ranks with different
// shapes do not agree, where the codec uses the shape.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0, ld = 0;  // at most 2^31 each
  bool is_given() const { return rows > 0; }
};

// What the caller of MPIQ_Allreduce asks for beside MPI's arguments.
struct CallOptions {
  std::optional<Method> method;  // used in place of the policy's
  Key key;                       // of the residual; empty: no feedback
  MatrixShape matrix;            // of the vector
  // For vectors on a GPU: the program's stream that has made the input. stream_ordered: the result may be
  // ready only for later work in that stream.
  std::optional<void*> stream;
  bool stream_ordered = false;
  std::optional<std::uint64_t> seed;  // of random rounding, in place of the environment's
  bool skip = false;   // this rank need not send, if the method's memory rule keeps an estimate of its vector
  Status local_error;  // why this rank cannot take part; all ranks learn of it
  // True for MPI_Allreduce of an unmodified program. The key is then known to this rank only. If ranks have
  // different methods, all reduce exactly.
  bool may_fall_back = false;
  bool is_part = false;  // of a call that is counted by itself (scheme.hpp): adds bytes and messages only
  std::uint64_t safeguards = 0;  // hash of what the ranks must also agree on before they compress
};

// How a call ended: with an error, with a result, or exact, which means that MPI still has to reduce.
struct Outcome {
  Status status;
  bool exact = false;
  bool split = false;  // exact because the ranks came with different methods
  // Why this rank's call, which had a method, is exact all the same; none if it is not for such a reason.
  std::optional<Reason> fell_back = {};
  // The ranks agreed and their codecs ran, on all ranks or on none. The status is then local to this rank.
  bool ran = false;
  // The call ran without its memory rule, because a rank keeps no arrays for it.
  bool without_memory = false;
  // How far an element of the result may be from the exact sum, by the promise of the method, beside what ordinary
  // sums round. 0: the method promises nothing, or the call has a residual.
  double promised = 0;
};

// Runs one blocking call of a communicator with the method that was chosen for it.
Outcome operate(CommState& state, const Call& call, const CallOptions& options, const Method& method);
// Starts MPI's own non-blocking reduction of a call on this communicator.
Status start_exact(const Call& call, MPI_Comm comm, MPI_Request& request);
// Copies a sum on one rank that MPI may not be able to make: of half-type elements, or with a vector on a
// device. False if the call is something else.
Result<bool> copies_alone(const Call& call);

// MPIQ_Allreduce.
Outcome requested_allreduce(const Call& call, const CallOptions& options) noexcept;
// The exception boundary: lack of memory becomes an error like any other.
template <class F>
Outcome with_memory(const F& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return {{Code::no_memory, "out of memory"}, false};
  }
}
// MPI's own reduction of a call. element: the type of the elements, if the library knows it.
int exact_allreduce(const Call& call, std::optional<kernels::Element> element);
// The end of a call: raises the error, or lets MPI reduce if the call is exact. May not return, and may throw
// what an error handler throws.
int conclude(const Call& call, const Outcome& outcome);

}  // namespace mq
