// Decides whether the library reduces a call, and how. Both entries use it: MPIQ_Allreduce and its relatives,
// and MPI_Allreduce of unmodified programs. The latter (preload/intercept.hpp) adds what only one rank knows:
// its call site, MPI_Pcontrol and a guard.
//
// Every decision depends only on values that are equal on all ranks, except for the call site, see CallFacts.
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
  std::shared_ptr<CommState> state;   // null: MPI reduces, and the ranks need not agree on that
  Method method;                      // mpi: MPI reduces
  const Rule* rule = nullptr;         // the rule that chose the method; null: none did
  std::optional<std::uint64_t> seed;  // of random rounding: that of the call's options, else of the rule
  std::optional<Reason> exact;        // why MPI reduces; none: the library reduces
};

// Why MPI reduces a call with these arguments, whatever its communicator. None: the arguments do not decide.
// element: gets the type of the elements, if the library knows it.
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
// Why MPI reduces every call on this communicator. None: it is an intracommunicator of at least two ranks,
// which the library serves.
inline std::optional<Reason> exact_by_ranks(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return Reason::handle;
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return Reason::handle;
  if (inter) return Reason::inter;
  if (PMPI_Comm_size(comm, &size) != MPI_SUCCESS || size < 2) return Reason::alone;
  return {};
}
// Why no rank compresses this call of an unmodified program. None: some rank may.
std::optional<Reason> exact_on_all_ranks(const CommState& state, const CallFacts& facts);

// Decides about a call that the library may reduce by its arguments. The mutex of the state must be held.
Decision decide(CommState& state, const CallFacts& facts, const CallOptions& options);
// Gives up the scheme of a call that it cannot serve: MPI reduces. The mutex of the state must be held.
void decline_scheme(CommState& state, Decision& decision);
// The options of a call as decided: with the seed of its rule, if it names none itself.
inline CallOptions decided(CallOptions options, const Decision& decision) {
  options.seed = decision.seed;
  return options;
}
// The whole decision for MPIQ_Allreduce and its relatives. Collective at the first use of the communicator.
Result<Decision> decide_requested(const Call& call, const CallOptions& options);

}  // namespace mq
