// Calls of all kinds that are in flight in this process. There is no hidden thread: MPIQ_Start, MPIQ_Test,
// MPIQ_Wait and every blocking call of this library advance all of them, on all communicators. So ranks that
// wait for different calls still advance each other's.
#pragma once

#include <cstddef>

namespace mq {

class CommState;

// A call that was started and is advanced until it is done: an allreduce (RunningCall) or a sparse reduction
// (SparseRun).
class InFlight {
 public:
  virtual ~InFlight() = default;
  virtual CommState& state() const = 0;
  // The state's mutex must be held. advance() does what can be done without waiting, and returns true if it
  // did anything. abandon(): nobody will complete the call.
  virtual bool advance() noexcept = 0;
  virtual bool done() const noexcept = 0;
  virtual void abandon() noexcept = 0;
};

// Reserves an entry in the list of calls in flight. Each call that may be in flight at some time needs one.
// Throws std::bad_alloc.
class InFlightSlot {
 public:
  InFlightSlot();
  ~InFlightSlot();
  InFlightSlot(const InFlightSlot&) = delete;
  InFlightSlot& operator=(const InFlightSlot&) = delete;
};
void list(InFlight& call);  // needs a reserved entry; the call must live until unlist()
void unlist(const InFlight& call);

// Advances the other calls of this process that are in flight. True if anything moved. Holds no lock while
// waiting.
bool advance_requests() noexcept;

// To be called when MPI is finalized. Gives up the calls that nobody has completed. Because other ranks may
// wait for them, it advances them until they are over or nothing has moved for patience_s. Returns how many
// there were. Communicators of calls that are not over are kept.
std::size_t abandon_requests(double patience_s) noexcept;

// Runs a call to its end and advances all others meanwhile. Seconds in which nothing could be done are added
// to wait_s of the communicator.
void complete(InFlight& call) noexcept;

}  // namespace mq
