// What keeps the threads of a rank apart where MPI lets only one of them be: in the first use of a
// communicator, and in its collective calls. Two threads in calls on one communicator come in an order that
// no other rank knows, so the second call is an error on all ranks.
#pragma once

#include <mpi.h>

#include <condition_variable>

#include "mpi_quant/base/status.hpp"

namespace mq {

class CommState;

// Of a communicator: whether a thread has the turn. Used with CommState::mutex held.
struct Turns {
  bool taken = false;
  std::condition_variable over;
};

// Held by a blocking call from before its agreement to its end. Waits for the call of another thread; then
// local_error() is this call's error, to be told to all ranks, which still have to come to it.
class Turn {
 public:
  explicit Turn(CommState& state);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Status local_error() const noexcept;
  // Of a call that another thread starts while somebody has the turn.
  static Status crowded() noexcept;

 private:
  CommState& state_;
  bool had_to_wait_ = false;
};

// Held while the state of a communicator is looked for and made. Waits for another thread's that is at it.
class FirstUse {
 public:
  explicit FirstUse(MPI_Comm comm);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

 private:
  MPI_Comm comm_;
  FirstUse* next_ = nullptr;  // of those that are under way
};

}  // namespace mq
