// From a gradient to new parameters. Every rank computes the same from the same gradient.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mq::bench {

enum class Rule { sgd, momentum, adagrad };
inline constexpr std::string_view kRules[] = {"sgd", "momentum", "adagrad"};

class Optimizer {
 public:
  Optimizer(Rule rule, double momentum, std::size_t parameters)
      : rule_(rule), momentum_(static_cast<float>(momentum)), state_(rule == Rule::sgd ? 0 : parameters) {}

  // parameters -= rate * step(gradient)
  void update(std::span<const float> gradient, float rate, std::span<float> parameters);
  // Divides a gradient by the root of the sum of the squares of all that came before it and itself (Duchi,
  // Hazan, Singer 2011).
  void adapt(std::span<float> gradient);

 private:
  Rule rule_;
  float momentum_;
  std::vector<float> state_;
};

}  // namespace mq::bench
