// One call from its arguments to its result. It can be left and resumed: MPIQ_Allreduce runs it to the end,
// MPIQ_Iallreduce leaves it to MPIQ_Test and MPIQ_Wait, and a persistent request runs it again and again.
//
//   prepare   scratch, residual, execution: everything that can fail on one rank alone          acquire.cpp
//   start     gives the call its number in the order of the communicator's calls             running_call.cpp
//   agree     all ranks compare the signatures and local errors of their calls; else an error on all ranks
//   run       the executor, or MPI's own reduction
//   settle    residual, statistics
//
// What goes wrong on one rank alone (memory, a bad argument) becomes its local error. The signature carries
// it to all ranks. It never leads to a different sequence of messages.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/answer.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/core/channel.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/shared_time.hpp"
#include "mpi_quant/device/placement.hpp"
#include "mpi_quant/engine/agree.hpp"
#include "mpi_quant/engine/execute.hpp"

namespace mq {

class CommState;

// Checks for what MPI would refuse. This comes before the agreement, so that it is an error on all ranks.
// element: the type of the elements, if the library knows it. may_overlap: sendbuf and recvbuf may share
// memory.
Status check_arguments(const Call& call, std::optional<kernels::Element> element, bool may_overlap);

// A call of the library's functions, by one reduction (RunningCall) or by several (SchemeRun). The object
// must stay where it is from start() to done(), and for ever once the communicator is broken. Two threads
// must not call it at once: see CommState::mutex.
class CallRun : public InFlight {
 public:
  // Prepares a call that may be started once. To be called again for the next one. Allocates only what no
  // earlier call needed. local_error: why this rank cannot take part. rehearsal: the call ends once the ranks
  // have agreed.
  virtual void prepare(const Request& request, const Decision& decision, Status local_error,
                       bool rehearsal = false) noexcept = 0;
  virtual void start() noexcept = 0;
  // Valid once the call is done.
  virtual const Outcome& outcome() const = 0;
  // To be called once the caller knows the outcome. Lets another call use the key. Not earlier: else the key
  // would be free on fast ranks and busy on slow ones.
  virtual void release() noexcept = 0;
};

class RunningCall final : public CallRun {
 public:
  enum class Exact {
    by_caller,  // an exact call ends without a result, and the caller lets MPI reduce: for blocking calls
    here,       // MPI's non-blocking reduction on the private communicator
  };

  RunningCall(CommState& state, Exact exact);
  ~RunningCall() override;
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  void prepare(const Request& request, const Decision& decision, Status local_error,
               bool rehearsal = false) noexcept override;
  // The same for a collective function that is no reduction, or a call by a scheme. The call is over once all
  // ranks have agreed on this signature. local_error: why this rank cannot take part. calls: Maxima::calls.
  void prepare_meeting(const Signature& signature, Status local_error, std::uint64_t calls = 0) noexcept;
  // Why this rank cannot take part in the call that is prepared.
  const Status& local_error() const { return local_error_; }
  void start() noexcept override;
  // Starts part number `part` of a call of several, 0 for the first. The parts have one number and one window
  // of tags, which the first part enters and the caller leaves. MPI keeps the messages of one part before the
  // messages of the next, because a rank posts the receives of a part after it has completed the receives of
  // the part before. measured: what this rank brings to the part's agreement.
  void start_part(QueuePosition& position, std::uint32_t part, double measured) noexcept;
  bool advance() noexcept override;
  bool done() const noexcept override { return stage_ == Stage::done; }
  // Nobody will complete the call. It goes on for the other ranks, but no longer uses the caller's vectors
  // where it can avoid it, and ends in an error on all ranks.
  void abandon() noexcept override;
  static Status abandoned() noexcept;  // the error of such a call
  const Outcome& outcome() const override { return outcome_; }
  // As it is now: later stages may have changed it.
  const Decision& decision() const { return decision_; }
  const Maxima& agreed_maxima() const { return agreement_.summary().maxima; }
  void release() noexcept override;
  // Gives what it has on a GPU to other calls, until the next one. For a run that is over.
  void rest() noexcept;
  CommState& state() const override { return state_; }

 private:
  enum class Stage {
    idle,
    queued,  // waits for a free window of tags
    agreeing,
    turn,      // exact: waits, because all ranks must call MPI's collectives in the same order
    reducing,  // MPI reduces
    running,   // the executor runs
    done,
  };
  Status prepare_run(std::optional<kernels::Element> element);
  Status check_method() const;
  Status prepare_residual(kernels::Measures when, bool& measures);
  Status place_residual();
  Status place_vectors();
  // Calls f for each residual of the call.
  template <class F>
  void for_each_entry(const F& f) const {
    if (entry_ != nullptr) f(*entry_);
    for (Residuals::Entry* const entry : entries_) f(*entry);
  }
  bool keeps_residuals() const;
  bool has_residual(const GroupCall::Vector& vector) const;
  Status prepare_memory(bool measures, std::byte*& scratch);
  Status refuse_capture();
  void count_memory();
  std::string_view residual_name() const {
    return decision_.key.empty() || gather_name_.empty() ? decision_.key.view() : gather_name_;
  }
  void sign(std::optional<kernels::Element> element);
  void sign_method();
  void begin(QueuePosition& position) noexcept;
  Status step(bool& moved);
  Status enter(bool& moved);
  std::optional<Reason> why_exact_now(bool is_split) const;
  Status agreed(bool& moved);
  Status take_turn(bool& moved);
  Status start_exact_calls();
  bool exact_calls_are_over();
  Status settle_parameters();
  void forget_unused_keys();
  void forget_unused_key(std::string_view name);
  void drop_residual();
  void restart_residual();
  void finish(Status status, bool delivered);
  void tell_time();

  CommState& state_;
  const Exact exact_;
  Stage stage_ = Stage::idle;
  QueuePosition own_position_;
  QueuePosition* position_ = &own_position_;  // a part uses the position of its whole call
  bool abandoned_ = false;
  bool rehearsal_ = false, from_program_ = false, is_part_ = false, may_skip_ = false;
  Call call_{};
  Decision decision_;
  std::string gather_name_;  // of the residual, if nothing is added up
  Residuals::Entry* entry_ =
      nullptr;  // of decision_.key; from prepare() to release(). Null: the call has none
  std::vector<Residuals::Entry*> entries_;               // in place of entry_, of a call of several vectors
  std::vector<VectorPlace> places_;                      // of a call of several vectors
  std::shared_ptr<const Channel::PlannedCall> planned_;  // of reduction_
  Reduction reduction_;
  Signature signature_;
  Maxima maxima_;  // what this rank brings to the agreement
  Status local_error_;
  Outcome outcome_;
  Tally tally_;
  DeviceOrder order_;
  bool stream_ordered_ = false;
  DevicePlacement vectors_;
  Buffer scratch_;
  std::size_t held_bytes_ = 0;  // memory of scratch_ and vectors_ that is counted for the communicator
  Agreement<MpiComm> agreement_;
  Execution<MpiComm> execution_;
  std::vector<MPI_Request> exact_requests_;  // one, or one for each vector of several
  Status exact_error_;                       // the first of their errors
  Share share_;
};

}  // namespace mq
