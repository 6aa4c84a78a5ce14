#include "bench/research/train/optimizer.hpp"

#include <cmath>

namespace mq::bench {
namespace {

constexpr float kTiny = 1e-8F;  // avoids a division by 0 if a gradient was always 0; epsilon of adamw

}  // namespace

float Optimizer::step(std::size_t i, float gradient) {
  if (rule_ == Rule::momentum) return state_[i] = momentum_ * state_[i] + gradient;
  if (rule_ == Rule::sgd) return gradient;
  if (rule_ == Rule::nesterov) {
    state_[i] = momentum_ * state_[i] + gradient;
    return momentum_ * state_[i] + gradient;
  }
  if (rule_ == Rule::adamw) {
    state_[i] = momentum_ * state_[i] + (1 - momentum_) * gradient;
    squares_[i] = second_momentum_ * squares_[i] + (1 - second_momentum_) * gradient * gradient;
    return state_[i] / static_cast<float>(share_) /
           (std::sqrt(squares_[i] / static_cast<float>(second_share_)) + kTiny);
  }
  state_[i] += gradient * gradient;
  return gradient / (std::sqrt(state_[i]) + kTiny);
}

void Optimizer::update(std::span<const float> gradient, float rate, std::span<float> parameters) {
  share_ = momentum_ * share_ + (1 - momentum_);
  second_share_ = second_momentum_ * second_share_ + (1 - second_momentum_);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] -= rate * (step(i, gradient[i]) + decay_ * parameters[i]);
}

void Optimizer::adapt(std::span<float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = step(i, gradient[i]);
}

}  // namespace mq::bench
