#include "bench/train/logistic.hpp"

#include <algorithm>
#include <cmath>

namespace mq::bench {

Logistic::Logistic(const Examples& data, double lambda)
    : data_(data),
      lambda_(lambda),
      tensors_{{"x", 0, data.features}},
      parameters_(data.features),
      sum_(data.features) {}

double Logistic::score(std::size_t example) const {
  double sum = 0;
  for (std::size_t k = data_.begin[example]; k < data_.begin[example + 1]; ++k)
    sum += static_cast<double>(data_.value[k]) * static_cast<double>(parameters_[data_.index[k]]);
  return data_.label[example] * sum;
}

double Logistic::gradient(std::span<const std::uint32_t> examples, float scale, float* gradients) {
  std::fill(sum_.begin(), sum_.end(), 0.0);
  double loss = 0;
  for (const std::uint32_t example : examples) {
    const double s = score(example);
    loss += s > 0 ? std::log1p(std::exp(-s)) : std::log1p(std::exp(s)) - s;  // exp never overflows
    const double slope = -data_.label[example] / (1 + std::exp(s));
    for (std::size_t k = data_.begin[example]; k < data_.begin[example + 1]; ++k)
      sum_[data_.index[k]] += slope * static_cast<double>(data_.value[k]);
  }
  const double regularised = lambda_ * static_cast<double>(examples.size());
  for (std::size_t j = 0; j < sum_.size(); ++j) {
    const double x = parameters_[j];
    loss += regularised / 2 * x * x;
    gradients[j] = scale * static_cast<float>(sum_[j] + regularised * x);
  }
  return loss;
}

std::size_t Logistic::recognised(std::size_t begin, std::size_t n) {
  std::size_t right = 0;
  for (std::size_t i = begin; i < begin + n; ++i) right += score(i) > 0;
  return right;
}

}  // namespace mq::bench
