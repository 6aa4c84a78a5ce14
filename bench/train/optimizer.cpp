#include "bench/train/optimizer.hpp"

#include <cmath>

namespace mq::bench {
namespace {

constexpr float kTiny = 1e-8F;  // where a gradient was always 0

}  // namespace

void Optimizer::update(std::span<const float> gradient, float rate, std::span<float> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    float step = gradient[i];
    if (rule_ == Rule::momentum) step = state_[i] = momentum_ * state_[i] + step;
    if (rule_ == Rule::adagrad) {
      state_[i] += step * step;
      step /= std::sqrt(state_[i]) + kTiny;
    }
    parameters[i] -= rate * step;
  }
}

void Optimizer::adapt(std::span<float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    state_[i] += gradient[i] * gradient[i];
    gradient[i] /= std::sqrt(state_[i]) + kTiny;
  }
}

}  // namespace mq::bench
