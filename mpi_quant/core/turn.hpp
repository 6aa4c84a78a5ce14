// Keeps the threads of a rank apart where MPI allows only one: in the first use of a communicator, and in
// collective calls on it. If two threads make calls on one communicator, other ranks do not know their order.
// So the second call is an error on all ranks.
#pragma once

#include <mpi.h>

#include <condition_variable>

#include "mpi_quant/base/status.hpp"

namespace mq {

class CommState;

// Says whether a thread is in a call on a communicator. CommState::mutex must be held.
struct Turns {
  bool taken = false;
  std::condition_variable over;
};

// Held by a blocking call from before its agreement to its end. It first waits for the call of another thread
// to end. Then local_error() is the error of this call. All ranks learn of it, so all have to make the call.
class Turn {
 public:
  explicit Turn(CommState& state);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Status local_error() const noexcept;
  // The error of a call that another thread starts while a thread has the turn.
  static Status crowded() noexcept;

 private:
  CommState& state_;
  bool had_to_wait_ = false;
};

// Held while the state of a communicator is looked up and made. Waits for another thread that does the same.
class FirstUse {
 public:
  explicit FirstUse(MPI_Comm comm);
  ~FirstUse();
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

 private:
  MPI_Comm comm_;
  FirstUse* next_ = nullptr;  // the next in the list of those that are held
};

}  // namespace mq
