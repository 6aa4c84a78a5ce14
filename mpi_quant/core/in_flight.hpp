// Calls that are under way in this process, whatever kind they are. There is no hidden thread: MPIQ_Start,
// MPIQ_Test, MPIQ_Wait and every blocking call of this library advance all of them, on all communicators, so
// that ranks which wait for different calls still help each other on.
#pragma once

#include <cstddef>

namespace mq {

class CommState;

// A started call that is advanced until it is done: an allreduce (CallRun) or a sparse reduction
// (SparseRun).
class InFlight {
 public:
  virtual ~InFlight() = default;
  virtual CommState& state() const = 0;
  // With the state's mutex held. advance() does what can be done without waiting, and is true if that was
  // anything. abandon(): nobody will complete the call.
  virtual bool advance() noexcept = 0;
  virtual bool done() const noexcept = 0;
  virtual void abandon() noexcept = 0;
};

// Room in the list of calls in flight; one for each that may be under way at once. Throws std::bad_alloc.
class InFlightSlot {
 public:
  InFlightSlot();
  ~InFlightSlot();
  InFlightSlot(const InFlightSlot&) = delete;
  InFlightSlot& operator=(const InFlightSlot&) = delete;
};
void list(InFlight& call);  // there is room; the call outlives its listing
void unlist(const InFlight& call);

// Advances what other calls of this process left under way; true if anything moved. Holds no lock while
// waiting.
bool advance_requests() noexcept;

// When MPI is finalized: gives up the calls that nobody has completed, and goes on with them until they are
// over or nothing has moved for patience_s, for other ranks may wait for them. Gives how many there are.
// Communicators of those that are not over are kept.
std::size_t abandon_requests(double patience_s) noexcept;

// Runs a call to its end, on the way also all others. Seconds without anything to do are added to the
// communicator's wait_s.
void complete(InFlight& call) noexcept;

}  // namespace mq
