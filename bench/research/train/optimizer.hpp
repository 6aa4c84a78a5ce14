// Computes new parameters from a gradient. Every rank computes the same from the same gradient.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mq::bench {

enum class Rule { sgd, momentum, adagrad, adamw, nesterov };
// The rules by name. adamw is algorithm 2 of Loshchilov and Hutter: Decoupled Weight Decay Regularization,
// 2019. nesterov is momentum as in Sutskever et al. 2013, in the form of Bengio et al. 2013: the
// step is the gradient and momentum times the new velocity.
inline constexpr std::string_view kRules[] = {"sgd", "momentum", "adagrad", "adamw", "nesterov"};

class Optimizer {
 public:
  // second_momentum and decay: of adamw alone, whose beta 1 is momentum.
  Optimizer(Rule rule, double momentum, std::size_t parameters, double second_momentum = 0, double decay = 0)
      : rule_(rule),
        momentum_(static_cast<float>(momentum)),
        second_momentum_(static_cast<float>(second_momentum)),
        decay_(rule == Rule::adamw ? static_cast<float>(decay) : 0),
        state_(rule == Rule::sgd ? 0 : parameters),
        squares_(rule == Rule::adamw ? parameters : 0) {}

  // parameters -= rate * (step(gradient) + decay * parameters). In the paper of adamw the decay is not
  // multiplied by its alpha: its lambda is alpha times this decay. Frameworks, such as PyTorch, do it so.
  void update(std::span<const float> gradient, float rate, std::span<float> parameters);
  // Applies the part of the rule that depends on earlier gradients, before a gradient is sent. Momentum: the
  // velocity replaces the gradient, so that what a codec holds back loses none of it (Lin et al.: Deep
  // Gradient Compression, 2018, section 3.2). AdaGrad: the gradient is divided by the root of the sum of all
  // squares so far (Seide et al. 2014, section 4).
  void adapt(std::span<float> gradient);

 private:
  float step(std::size_t i, float gradient);  // of parameter i; updates its state

  Rule rule_;
  float momentum_, second_momentum_, decay_;
  std::vector<float> state_, squares_;
  // adamw: the averages began at 0, so each is this share of what it is the average of.
  double share_ = 0, second_share_ = 0;
};

}  // namespace mq::bench
