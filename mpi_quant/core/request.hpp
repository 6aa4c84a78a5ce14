// What is asked for: a collective, its arguments, the options of the caller, and who asks. Every entry makes
// one of these: MPIQ_Allreduce, its non-blocking and persistent forms, MPIQ_Reduce_scatter, and the MPI_
// functions of an unmodified program.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/group_call.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/memory/control.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/plan/collective.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// The arguments of a reduction. count is wide enough for MPI_Allreduce and its _c form.
struct Call {
  const void* sendbuf;
  void* recvbuf;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Op op;
  MPI_Comm comm;
  Collective collective = Collective::allreduce;
  const PartedCall* parted = nullptr;  // not null if parts of the vector belong to ranks
  // Not null if the call is of several vectors: count is the sum of all counts, sendbuf is MPI_IN_PLACE and
  // recvbuf null.
  const GroupCall* group = nullptr;
  // What MPI gets in place of count and datatype, if the library counts reals and the caller did not. A null
  // type: MPI gets the same.
  struct Given {
    MPI_Count count = 0;
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    bool is_complex = false;
  } given = {};
  int divisor = 1;  // of the sum: the number of ranks, if the result is the mean (mean.hpp)
  MPI_Count mpi_count() const { return given.datatype == MPI_DATATYPE_NULL ? count : given.count; }
  MPI_Datatype mpi_type() const { return given.datatype == MPI_DATATYPE_NULL ? datatype : given.datatype; }
  const void* input() const {
    if (parted != nullptr && parted->input_at != nullptr) return parted->input_at;
    return sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
  }
  // The elements of the vector in the input and in recvbuf.
  Range input_range() const { return parted != nullptr ? parted->input : whole(); }
  Range output_range() const { return parted != nullptr ? parted->output : whole(); }

 private:
  Range whole() const { return {0, count > 0 ? static_cast<std::size_t>(count) : 0}; }
};

// Counts the call in reals, if an element of its type is several: codecs, residuals and plans know no other
// unit. What MPI gets stays as it is; but MPI has no sum of derived types, so it gets reals, too. Returns the
// reals of an element of the caller's type.
std::size_t count_in_reals(Call& call, Types types);

// The vector as a matrix, stored column by column, with ld elements from one column to the next (info
// mpiq_matrix). Codecs get it in their parameters "rows", "columns" and "ld", as far as they have them. So
// ranks with different shapes do not agree, where the codec uses the shape.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0, ld = 0;  // at most 2^31 each
  bool is_given() const { return rows > 0; }
};

// What the caller asks for beside MPI's arguments.
struct CallOptions {
  std::optional<Method> method;  // used in place of the policy's
  Key key;                       // of the residual; empty: no feedback
  MatrixShape matrix;            // of the vector
  // For vectors on a GPU: the program's stream that has made the input. stream_ordered: the result may be
  // ready only for later work in that stream.
  std::optional<void*> stream;
  bool stream_ordered = false;
  std::optional<std::uint64_t> seed;  // of random rounding, in place of the environment's
  bool is_mean = false;               // the caller asks for the mean: see mean.hpp
  bool skip = false;   // this rank need not send, if the method's memory rule keeps an estimate of its vector
  Status local_error;  // why this rank cannot take part; all ranks learn of it
  bool is_part = false;  // of a call that is counted elsewhere: adds bytes and messages only
};

// An unmodified program. The functions tell what only this rank knows of the call that its thread makes now.
struct Program {
  Control (*control)() noexcept;
  Key (*take_key)() noexcept;  // that MPI_Pcontrol named for this sum; it is then forgotten
  std::string (*site)();       // where the program called. Takes some microseconds
  bool watched;                // a report is wanted
};

struct Request {
  Call call;
  CallOptions options = {};
  // The vectors and parts of the call, which outlives the arguments of its function. Null for a blocking call
  // with parts.
  std::shared_ptr<const GroupCall> group = {};
  std::shared_ptr<const PartedCall> parted = {};
  bool is_blocking = true;
  // Null: the program called this library. Otherwise it called MPI: keys are known to this rank only, and if
  // ranks have different methods, MPI reduces.
  const Program* program = nullptr;
};

}  // namespace mq
