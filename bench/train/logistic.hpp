// Logistic regression of two classes. The loss of an example with features a and label y (-1 or 1) is
//
//   log(1 + exp(-y a x)) + lambda / 2 |x|^2
//
// With lambda above 0 there is one minimum, so that the losses of all methods can be compared. x begins at 0.
#pragma once

#include "bench/train/libsvm.hpp"
#include "bench/train/problem.hpp"

namespace mq::bench {

// The examples are also the tests.
class Logistic : public Problem {
 public:
  Logistic(const Examples& data, double lambda);
  std::span<float> parameters() override { return parameters_; }
  const std::vector<Span>& tensors() const override { return tensors_; }
  std::size_t examples() const override { return data_.count(); }
  std::size_t tests() const override { return data_.count(); }
  double gradient(std::span<const std::uint32_t> examples, float scale, float* gradients) override;
  std::size_t recognised(std::size_t begin, std::size_t n) override;

 private:
  double score(std::size_t example) const;  // y a x

  const Examples& data_;
  double lambda_;
  std::vector<Span> tensors_;
  std::vector<float> parameters_;
  std::vector<double> sum_;  // of derivatives
};

}  // namespace mq::bench
