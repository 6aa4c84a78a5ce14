// Decides whether and how the library reduces a call, whoever asks. decide.cpp has the table of all reasons
// for which MPI reduces; here is the value that the rest of the road carries. What changes later (no memory,
// a capture, ranks that chose differently) changes this value and its reason, so that a report says what
// happened.
//
// Every decision depends only on values that are equal on all ranks, except for Knowledge::this_rank and
// residual.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/core/chosen.hpp"
#include "mpi_quant/core/request.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "mpi_quant/policy/reason.hpp"

namespace mq {

class CommState;

struct Decision {
  Reason reason = Reason::compressed;  // compressed, or why MPI reduces
  Method method;                       // mpi: MPI reduces
  Key key;                             // of the residual; empty: none
  bool ignores_keys = false;           // also the keys of several vectors: auto lets no residual wait
  std::optional<std::uint64_t> seed;   // of random rounding: from the call's options, else from the rule
  const Rule* rule = nullptr;          // the rule that chose the method; null: none did
  // Hash of what the ranks must also agree on before they compress (feedback and guard of the rule).
  std::uint64_t agreed_options_hash = 0;
  std::uint64_t kind = 0;  // identifies the calls of a program that are guarded together
  Chosen chosen;           // what auto chose, if the rule or the caller says auto
  bool declined = false;   // a scheme that cannot serve this call was given up

  Decision without_key() const {
    Decision other = *this;
    other.key = {};
    return other;
  }
  // Leaves the call to MPI after all. Every later stage that changes a decision uses this function.
  void leave_to_mpi(Reason why) {
    method = {};
    reason = why;
  }
  // Where this library lacks memory, MPI may have enough: the call is left to it, and this is no error then.
  Status leave_if_no_memory(Status error) {
    if (error.code() != Code::no_memory) return error;
    leave_to_mpi(Reason::no_memory);
    return {};
  }
};

// True if sendbuf and recvbuf share memory. False for a call in place.
bool overlaps(const Call& call, std::optional<kernels::Element> element);
// Of the memory rule of a method and its parameters; 0 for carry.
std::uint64_t memory_hash(const Method& method);

// When a reason becomes known. Each stage is asked once the one before has found no reason.
enum class Knowledge : std::uint8_t {
  arguments,  // of MPI: equal on all ranks of a correct program
  ranks,      // the communicator, before its first use
  first_use,  // whether there is a state, and whether the ranks can read each other's messages
  all_ranks,  // what the ranks agreed on at the first use; equal on all ranks
  this_rank,  // switches of MPI_Pcontrol, call sites, addresses, the guard
  residual,   // whose residual it is
};

// What is known about a call so far. It is made for every large call of a program, so it is small.
struct Situation {
  const Call& call;
  const Program* program = nullptr;              // as in Request
  std::optional<kernels::Element> element = {};  // of a type that the library reduces
  // Of the communicator, once ask_ranks() was called. ranks: -1 if MPI does not tell.
  int ranks = 0;
  bool is_inter = false;
  // The state of the communicator. Before Knowledge::first_use it is set if a program calls and there is one
  // already; fewer than two ranks and intercommunicators need none. Later, null means that the library must
  // not act.
  CommState* state = nullptr;
  // From Knowledge::all_ranks on. The mutex of the state is held.
  const CallOptions* options = nullptr;
  bool is_blocking = true;
  const CallKey* call_key = nullptr;
  Policy::Prospect prospect = {};  // of a program's call
  Control said = {};
  const Automatic* automatic = nullptr;  // what auto is asked for by the caller or the rule; null: it is not
  const Chosen* chosen = nullptr;        // by choose_automatically then

  void ask_element();
  void ask_ranks();
  // Sets `automatic`, and if it is asked for, `into` and `chosen`. All ranks call it for the same calls.
  void ask_auto(Chosen& into);
};

// Why MPI reduces; none if nothing that is known at this stage speaks against the library.
std::optional<Reason> why_exact(Knowledge stage, const Situation& situation);
// If there is such a reason, the decision leaves the call to MPI. True then.
bool leave_if_known(Knowledge stage, const Situation& situation, Decision& decision);
// What this rank wants, by all that is known. The situation has passed the stages before. A program's call
// has yet to pass Knowledge::residual.
Decision decide(const Situation& situation);

}  // namespace mq
