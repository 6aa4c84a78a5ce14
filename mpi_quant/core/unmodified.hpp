// What calls of unmodified programs need beside the road of a call: the residual that belongs to a vector
// which the program does not name, and the guard, which compares some results with the exact sum. Calls of
// the library's own functions have neither.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mpi_quant/core/answer.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/guard.hpp"
#include "mpi_quant/memory/identity.hpp"

namespace mq {

// Finds the residual of one call. The mutex of the state must be held.
class CallIdentity {
 public:
  // Before the decision, for each call that the policy is asked about: reads what the program has said.
  void begin(CommState& state, const Program& program);
  const Control& said() const { return said_; }
  // For a call that is to be compressed. The residual, if the rule asks for one and it is certain whose it
  // is, becomes the key of the decision. If a flush was announced, the call sends the sum and its residual
  // exactly.
  void find(CommState& state, const Situation& situation, Decision& decision);
  // For a call whose rule the guard gave up: if something still waits in its residual, the call delivers it.
  void find_held(CommState& state, const Situation& situation, Decision& decision);
  // After the call.
  void settle(CommState& state, const Outcome& outcome, const Decision& decision);

  bool flushes() const { return flushed_ != nullptr; }
  bool delivers_held() const { return delivers_held_; }
  FeedbackOutcome feedback() const { return feedback_; }

 private:
  Sender sender(const Situation& situation, const Decision& decision) const;

  Control said_;
  Key named_;                         // by MPI_Pcontrol, for this call
  std::uint64_t* flushed_ = nullptr;  // not null: this call flushes a residual
  bool delivers_held_ = false;
  FeedbackOutcome feedback_ = FeedbackOutcome::none;
};

// The guard of one call: see guard.hpp for what is compared, and when. The mutex of the state must be held,
// but for judge().
class CallGuard {
 public:
  // Whether this call is judged, alone or as the last of a window, becomes a part of what the ranks have to
  // agree on. The input is kept then. An error is the call's local error.
  Status acquire(CommState& state, const Situation& situation, bool flushes, Decision& decision);
  // If there was no memory to decide with.
  void drop(CommState& state) noexcept;
  // After the call: counts it, and adds its result to the window. outcome.ran and split calls count alike on
  // all ranks.
  void settle(CommState& state, const Request& request, const Outcome& outcome);
  // Compares, if this call is judged and the codecs ran. Collective then. Returns how the call ended.
  Outcome judge(CommState& state, const Request& request, const Decision& decision, Outcome outcome);
  double error() const { return error_; }  // < 0: not judged

 private:
  bool plan(Guard& guard, const Situation& situation, const Decision& decision, bool captured);

  Safeguards asked_;         // of the rule
  std::uint64_t kind_ = 0;   // Decision::kind
  bool is_counted_ = false;  // the rule has a guard, and this call counts
  bool is_judged_ = false;
  GuardedCall guarded_;
  GuardWindow* window_ = nullptr;     // the window that this call has joined
  std::unique_ptr<GuardWindow> own_;  // the same, if this is the last call of the window
  double error_ = -1;
};

}  // namespace mq
