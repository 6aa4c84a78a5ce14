// One call by a scheme, such as lowrank, from its arguments to its result: blocking, non-blocking or
// persistent. It has one number in the order of the communicator's calls, and one window of tags. In it an
// agreement opens the call, and the parts follow, one after the other, each with an agreement of its own. So
// ranks may reach a part at different times, while other calls of the communicator go on.
//
// What goes wrong on one rank alone, before the call or in a part, becomes its local error of the next
// agreement. So all ranks make the same parts.
#pragma once

#include <cstdint>
#include <memory>

#include "mpi_quant/core/running_call.hpp"
#include "mpi_quant/core/scheme.hpp"

namespace mq {

class SchemeRun final : public CallRun {
 public:
  // parts: runs the parts. It outlives this object, and is used by nobody else between start() and done().
  explicit SchemeRun(RunningCall& parts) : run_(parts) {}
  SchemeRun(const SchemeRun&) = delete;
  SchemeRun& operator=(const SchemeRun&) = delete;

  void prepare(const Request& request, const Decision& decision, Status local_error,
               bool rehearsal = false) noexcept override;
  void start() noexcept override;
  bool advance() noexcept override;
  bool done() const noexcept override { return is_done_; }
  void abandon() noexcept override;
  const Outcome& outcome() const override { return outcome_; }
  void release() noexcept override;
  CommState& state() const override { return run_.state(); }

 private:
  Status prepare_steps(const Request& request, const Decision& decision);
  void go_on() noexcept;
  SchemePart part_after(Outcome& last, Status& local_error) noexcept;
  void finish(Outcome outcome) noexcept;

  RunningCall& run_;
  QueuePosition position_;
  std::unique_ptr<SchemeSteps> steps_;  // null: no call has needed them yet
  const Scheme* scheme_ = nullptr;      // of the steps
  Call call_{};
  Key key_;
  Request part_request_{.call = {}};
  Decision part_decision_;
  std::size_t part_ = 0;  // number of the part in flight; 0: the agreement that opens the call
  bool rehearsal_ = false, has_begun_ = false, is_abandoned_ = false, is_done_ = false;
  Outcome failure_;              // of a part that failed on this rank, for which it makes another part
  std::size_t failed_part_ = 0;  // its number
  Outcome outcome_;
};

// What a call runs by.
struct Runs {
  Runs(CommState& state, RunningCall::Exact exact) : one(state, exact), scheme(one) {}
  CallRun& of(const Decision& decision) {
    if (decision.method.scheme != nullptr) return scheme;
    return one;
  }
  RunningCall one;
  SchemeRun scheme;
};

}  // namespace mq
