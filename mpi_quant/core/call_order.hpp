// The order of the calls of one communicator, the same on all ranks. Calls enter in the order of their numbers, and at most
// kWindows of them are between enter and leave. Each has a window of tags of its own there, so that a message of one call is
// never taken for a message of another. Not safe for threads: see CommState::mutex.
#pragma once

#include <array>
#include <cstdint>

#include "mpi_quant/plan/plan.hpp"

namespace mq {

// What other calls need to know of a call in flight.
struct QueuePosition {
  // No later call has to wait for this one before it enters a collective function of MPI, whose order is that of the calls.
  bool past_turn = false;
};

class CallOrder {
 public:
  static constexpr std::uint32_t kWindows = 32;  // divides 2^32, so that numbers may wrap around
  static constexpr int kTagsPerWindow = 1000;
  static_assert(kMaxRounds < kTagsPerWindow);  // the last tag of a window is the agreement's

  // The number of the next call that starts.
  std::uint32_t next_number() { return started_++; }
  // The window of a call, or -1 while it has to wait. position stays where it is until leave().
  int enter(const QueuePosition& position, std::uint32_t number);
  void leave(std::uint32_t number);
  // True once all calls before this one have left or gone past their turn.
  bool may_reduce(std::uint32_t number) const;

 private:
  std::array<const QueuePosition*, kWindows> window_{};  // by number, modulo kWindows; null: left
  std::uint32_t started_ = 0;
  std::uint32_t entered_ = 0,
                oldest_ = 0;  // numbers of the next call to enter and of the first that has not left
};

}  // namespace mq
