// The spine of a call: classify, choose, agree, run; or hand over to MPI. See allreduce.cpp.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/policy.hpp"

namespace mq {

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
struct Wishes {
  std::optional<Method> method;  // in place of the policy's
  std::string key;               // of the residual; empty: no feedback
  Status trouble;                // why this rank cannot take part; reported to all
};

// No call below this many bytes is ever compressed by the policy of MPI_Allreduce: scalars, norms and flags
// live there.
inline constexpr MPI_Count kInterceptFloorBytes = 64 << 10;

// What became of a call: an error, a result, or nothing yet because the reduction is MPI's to do.
struct Outcome {
  Status status;
  bool exact = false;
};

// MPI_Allreduce of an unmodified program: compressed if the policy says so, else MPI's.
Outcome intercepted_allreduce(const Call& call) noexcept;
// MPIQ_Allreduce.
Outcome requested_allreduce(const Call& call, const Wishes& wishes) noexcept;
// The end of a call: raises the error, or lets MPI reduce. May not return, and may throw what an error
// handler throws.
int conclude(const Call& call, const Outcome& outcome);

// The element type of a predefined MPI float type the codecs know.
std::optional<kernels::Element> element_of(MPI_Datatype datatype);

}  // namespace mq
