// The order of the calls of one communicator, which is the same on all ranks. Calls enter in the order of
// their numbers, and at most kWindows of them are between enter and leave. Each of these has its own window
// of tags, so that a message of one call is never taken for a message of another. Not safe for threads: see
// CommState::mutex.
#pragma once

#include <array>
#include <cstdint>

#include "mpi_quant/plan/plan.hpp"

namespace mq {

// The place of a call in the order.
struct QueuePosition {
  std::uint32_t number = 0;
  int window = -1;  // of tags; -1: the call has not entered, or has left
  // True if no later call has to wait for this one before it enters a collective function of MPI. All ranks
  // must enter those in the order of the calls.
  bool past_turn = false;
};

class CallOrder {
 public:
  static constexpr std::uint32_t kWindows = 32;  // divides 2^32, so that numbers may wrap around
  static constexpr int kTagsPerWindow = 1000;
  static_assert(4 * kMaxTags < kTagsPerWindow);  // the last tag of a window is the agreement's

  // The position of the next call that starts.
  QueuePosition next() { return {started_++}; }
  // Gives the call a window. False if it has to wait. position must stay where it is until leave().
  bool enter(QueuePosition& position);
  void leave(QueuePosition& position);  // does nothing if the call has not entered
  // True once all calls before this one have left or gone past their turn.
  bool may_reduce(const QueuePosition& position) const;

 private:
  std::array<const QueuePosition*, kWindows> window_{};  // by number modulo kWindows; null: it has left
  std::uint32_t started_ = 0;
  std::uint32_t entered_ = 0,  // number of the next call to enter
      oldest_ = 0;             // number of the first call that has not left
};

inline bool CallOrder::enter(QueuePosition& position) {
  if (position.number != entered_ || position.number - oldest_ >= kWindows) return false;
  ++entered_;
  position.window = static_cast<int>(position.number % kWindows);
  window_[position.number % kWindows] = &position;
  return true;
}

inline void CallOrder::leave(QueuePosition& position) {
  if (position.window < 0) return;
  position.window = -1;
  window_[position.number % kWindows] = nullptr;
  while (oldest_ != entered_ && window_[oldest_ % kWindows] == nullptr) ++oldest_;
}

inline bool CallOrder::may_reduce(const QueuePosition& position) const {
  for (std::uint32_t i = oldest_; i != position.number; ++i)
    if (window_[i % kWindows] != nullptr && !window_[i % kWindows]->past_turn) return false;
  return true;
}

}  // namespace mq
