// Computes new parameters from a gradient. Every rank computes the same from the same gradient.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mq::bench {

enum class Rule { sgd, momentum, adagrad, nesterov };
// The rules by name. nesterov is momentum as in Sutskever et al. 2013, in the form of Bengio et al. 2013: the
// step is the gradient and momentum times the new velocity.
inline constexpr std::string_view kRules[] = {"sgd", "momentum", "adagrad", "nesterov"};

class Optimizer {
 public:
  Optimizer(Rule rule, double momentum, std::size_t parameters)
      : rule_(rule), momentum_(static_cast<float>(momentum)), state_(rule == Rule::sgd ? 0 : parameters) {}

  // parameters -= rate * step(gradient)
  void update(std::span<const float> gradient, float rate, std::span<float> parameters);
  // Applies the part of the rule that depends on earlier gradients, before a gradient is sent. Momentum: the
  // velocity replaces the gradient, so that what a codec holds back loses none of it (Lin et al.: Deep
  // Gradient Compression, 2018, section 3.2). AdaGrad: the gradient is divided by the root of the sum of all
  // squares so far (Seide et al. 2014, section 4).
  void adapt(std::span<float> gradient);

 private:
  float step(std::size_t i, float gradient);  // of parameter i; updates its state

  Rule rule_;
  float momentum_;
  std::vector<float> state_;
};

}  // namespace mq::bench
