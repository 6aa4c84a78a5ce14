// Whether the library reduces a call, and how. Both entries decide here: MPIQ_Allreduce and its relatives, and MPI_Allreduce of
// unmodified programs (preload/intercept.hpp), which adds what only one rank knows: its call site, MPI_Pcontrol and a guard.
//
// Every decision is a function of values that are equal on all ranks; the call site is the exception, see CallFacts.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "mpi_quant/policy/reason.hpp"

namespace mq {

class CommState;

struct Decision {
  std::shared_ptr<CommState> state;  // null: MPI reduces, and the ranks need not agree on that
  Method method;                     // mpi: MPI reduces
  const Rule* rule = nullptr;        // that has chosen the method; null: none has
  std::optional<Reason> exact;       // why MPI reduces; none: the library does
};

// Why MPI reduces a call with these arguments on any communicator, if it does. element: of the datatype, if it is one of ours.
inline std::optional<Reason> exact_by_arguments(const Call& call, std::uint64_t least_bytes,
                                                std::optional<kernels::Element>& element) {
  if (call.comm == MPI_COMM_NULL || call.datatype == MPI_DATATYPE_NULL || call.op == MPI_OP_NULL ||
      call.count < 0)
    return Reason::handle;
  element = element_of(call.datatype);
  if (!element) return Reason::type;
  if (call.op != MPI_SUM) return Reason::op;
  if (static_cast<std::uint64_t>(call.count) < least_bytes / kernels::element_bytes(*element))
    return Reason::small;
  return {};
}
// Why MPI reduces every call on a communicator, if it does: the library serves intracommunicators of at least two ranks.
inline std::optional<Reason> exact_by_ranks(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return Reason::handle;
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return Reason::handle;
  if (inter) return Reason::inter;
  if (PMPI_Comm_size(comm, &size) != MPI_SUCCESS || size < 2) return Reason::alone;
  return {};
}
// Why no rank compresses this call of an unmodified program, if none does.
std::optional<Reason> exact_on_all_ranks(const CommState& state, const CallFacts& facts);

// Of a call that the library may reduce by its arguments. The state's mutex is held.
Decision decide(CommState& state, const CallFacts& facts, const CallOptions& options);
// The whole decision for MPIQ_Allreduce and its relatives. Collective over the communicator at its first use.
Result<Decision> decide_requested(const Call& call, const CallOptions& options);

}  // namespace mq
