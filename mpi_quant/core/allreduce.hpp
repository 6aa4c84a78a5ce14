// The blocking call from top to bottom:
//
//   decide    policy or info -> Decision: method or MPI, key, reason         decide.hpp
//   acquire   what this rank needs; may change the decision                  acquire.cpp, unmodified.hpp
//   agree     all ranks compare what they decided                            running_call.hpp
//   run       the codecs, or nothing                                         engine
//   settle    residual, statistics, for programs the guard                   running_call.hpp, unmodified.hpp
//   answer    the result, the error, or MPI's own reduction                  answer.hpp
//
// requests.hpp has non-blocking and persistent calls, which go the same way, but are left and resumed.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>

#include "mpi_quant/core/answer.hpp"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/core/unmodified.hpp"

namespace mq {

// What is decided about a call of the library's own functions.
struct Decided {
  std::shared_ptr<CommState> state;  // of the communicator; null if the decision is agreed
  Decision decision;
};
// Collective at the first use of the communicator.
Result<Decided> decide_requested(const Request& request);
// Acquires, agrees, runs and settles what is decided. local_error: why this rank cannot take part.
Outcome agree_and_run(CommState& state, const Request& request, const Decision& decision,
                      const Status& local_error);
// All stages of a blocking function of this library before the answer.
Outcome requested_call(const Request& request) noexcept;

// One call of another function of this library, such as MPIQ_Factors_allreduce. That function counts the call
// itself. The ranks have agreed on that function, and it has the turn. method: a codec.
Outcome run_part(CommState& state, const Turn& turn, const Call& call, const Method& method);

// What a call sent, and how long its parts took.
struct Work {
  std::uint64_t wire_bytes = 0, overflows = 0;
  double encode_s = 0, decode_s = 0, wait_s = 0;
};

// A call of an unmodified program. The same way, with identity and guard.
class ProgramCall {
 public:
  // situation: of a call in which nothing speaks against the library up to Knowledge::ranks. It stays where
  // it is.
  explicit ProgramCall(Situation& situation)
      : request_{.call = situation.call, .program = situation.program}, situation_(situation) {
    situation_.options = &request_.options;
  }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;

  // All but the answer.
  Outcome run() noexcept;

  // What a report wants to know after run().
  const std::string& site() const { return site_; }      // "" if nobody asked for it
  const std::string& method() const { return method_; }  // what the rule says, if a report is wanted
  FeedbackOutcome feedback() const { return identity_.feedback(); }
  double guard_error() const { return guard_.error(); }  // < 0: not judged
  // The program runs to be advised, and a codec could serve the call.
  bool is_advisable() const { return is_advisable_; }
  const Work& work() const { return work_; }

 private:
  bool decide_together();
  Status decide_here(bool protects) noexcept;
  Outcome run_decided();

  const Request request_;
  Situation& situation_;
  CallKey call_key_;
  CommState* state_ = nullptr;
  Decision decision_;
  CallIdentity identity_;
  CallGuard guard_;
  Chosen chosen_;  // by auto
  ChoiceJudge judge_;
  std::string site_, method_;
  bool is_advisable_ = false;
  Work work_;
};

}  // namespace mq
