#include "mpi_quant/core/call_order.hpp"

namespace mq {

int CallOrder::enter(const QueuePosition& position, std::uint32_t number) {
  if (number != entered_ || number - oldest_ >= kWindows) return -1;
  ++entered_;
  window_[number % kWindows] = &position;
  return static_cast<int>(number % kWindows);
}

void CallOrder::leave(std::uint32_t number) {
  window_[number % kWindows] = nullptr;
  while (oldest_ != entered_ && window_[oldest_ % kWindows] == nullptr) ++oldest_;
}

bool CallOrder::may_reduce(std::uint32_t number) const {
  for (std::uint32_t i = oldest_; i != number; ++i)
    if (window_[i % kWindows] != nullptr && !window_[i % kWindows]->past_turn) return false;
  return true;
}

}  // namespace mq
