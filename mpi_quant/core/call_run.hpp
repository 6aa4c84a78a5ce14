// One call from its arguments to its result, resumable: what MPIQ_Allreduce runs to the end, MPIQ_Iallreduce
// leaves to MPIQ_Test and MPIQ_Wait, and a persistent request does again and again.
//
//   prepare   scratch, residual, execution: everything that can fail on one rank alone
//   start     takes a place in the order of the communicator's calls
//   agree     all ranks compare their calls' signatures and local errors; else an error on all ranks
//   run       the executor, or MPI's own reduction
//
// Whatever is wrong on one rank alone (memory, a bad argument) becomes the local error, which the signature
// tells to all ranks. It never leads to a different path.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/call_order.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/device/placement.hpp"
#include "mpi_quant/engine/agree.hpp"
#include "mpi_quant/engine/execute.hpp"

namespace mq {

class CommState;

// What MPI would refuse; checked before the agreement, so that it is an error on all ranks. element: of the
// datatype, if it is one of ours. may_overlap: sendbuf and recvbuf may share memory.
Status check_arguments(const Call& call, std::optional<kernels::Element> element, bool may_overlap);

// Must stay where it is from start() to done(), and for ever once the communicator is broken. Not safe to
// call from two threads at once: see CommState::mutex.
class CallRun final : public InFlight {
 public:
  enum class Exact {
    by_caller,  // an exact call ends with outcome().exact, and the caller reduces: blocking calls
    here,       // by MPI's non-blocking reduction on the private communicator
  };

  CallRun(CommState& state, Exact exact);
  ~CallRun() override;
  CallRun(const CallRun&) = delete;
  CallRun& operator=(const CallRun&) = delete;

  // Gets everything ready for a call that may be started once; again for the next. Allocates only what no
  // earlier call needed. rehearsal: the call is to end once the ranks have agreed.
  void prepare(const Call& call, const CallOptions& options, Method method, bool rehearsal = false) noexcept;
  // The same for a collective function that is no reduction: the call is over once all ranks have agreed that
  // they are in it. local_error: why this rank cannot take part.
  void prepare_function(std::string_view function, Status local_error) noexcept;
  void start() noexcept;
  bool advance() noexcept override;
  bool done() const noexcept override { return stage_ == Stage::done; }
  // The call goes on for the other ranks' sake, without the caller's vectors where they are ours to read, and
  // is an error on all of them.
  void abandon() noexcept override;
  const Outcome& outcome() const { return outcome_; }
  // Once the caller knows the outcome: lets another call have the key. Not earlier, or whether a call finds
  // its key free would depend on how far each rank has come.
  void release() noexcept;
  CommState& state() const override { return state_; }

 private:
  enum class Stage {
    idle,
    queued,  // until a window of tags is free
    agreeing,
    turn,      // exact: MPI's collectives must be called in the same order on all ranks
    reducing,  // by MPI
    running,   // by us
    done,
  };
  Status prepare_run(std::optional<kernels::Element> element);
  Status prepare_residual(bool measures, bool& proposes);
  Status place_residual();
  Status prepare_memory(bool measures, std::byte*& scratch);
  Status refuse_capture();
  void count_memory();
  void sign(std::optional<kernels::Element> element);
  Status step(bool& moved);
  Status enter(bool& moved);
  Status agreed(bool& moved);
  Status take_turn(bool& moved);
  Status settle_parameters();
  void forget_unused_key();
  void restart_residual();
  void finish(Status status, bool exact);

  CommState& state_;
  const Exact exact_;
  Stage stage_ = Stage::idle;
  QueuePosition position_;
  bool abandoned_ = false;
  bool rehearsal_ = false, entered_ = false, holds_key_ = false, may_fall_back_ = false;
  std::uint64_t safeguards_ = 0;
  Call call_{};
  Key key_;
  Method method_;
  Job job_;
  Signature signature_;
  double proposal_ = 0;
  Status local_error_;
  Outcome outcome_;
  Tally tally_;
  DeviceOrder order_;
  bool stream_ordered_ = false;
  DevicePlacement vectors_;
  Buffer scratch_;
  std::size_t held_bytes_ = 0;  // of scratch_ and vectors_, in the communicator's numbers
  Agreement<MpiComm> agreement_;
  Execution<MpiComm> execution_;
  MPI_Request reduction_ = MPI_REQUEST_NULL;
};

}  // namespace mq
