#include "mpi_quant/core/call_order.hpp"

namespace mq {

bool CallOrder::enter(QueuePosition& position) {
  if (position.number != entered_ || position.number - oldest_ >= kWindows) return false;
  ++entered_;
  position.window = static_cast<int>(position.number % kWindows);
  window_[position.number % kWindows] = &position;
  return true;
}

void CallOrder::leave(QueuePosition& position) {
  if (position.window < 0) return;
  position.window = -1;
  window_[position.number % kWindows] = nullptr;
  while (oldest_ != entered_ && window_[oldest_ % kWindows] == nullptr) ++oldest_;
}

bool CallOrder::may_reduce(const QueuePosition& position) const {
  for (std::uint32_t i = oldest_; i != position.number; ++i)
    if (window_[i % kWindows] != nullptr && !window_[i % kWindows]->past_turn) return false;
  return true;
}

}  // namespace mq
