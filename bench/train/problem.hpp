// What a Trainer trains: parameters, examples, and the gradient of a loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mq::bench {

// The place of a tensor among all parameters.
struct Span {
  std::string name;
  std::size_t begin = 0, count = 0;
  std::size_t row = 0;  // elements of a row, if it is a matrix, stored row by row; otherwise 0
};

class Problem {
 public:
  Problem() = default;
  virtual ~Problem() = default;
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  virtual std::span<float> parameters() = 0;
  virtual const std::vector<Span>& tensors() const = 0;
  virtual std::size_t examples() const = 0;
  virtual std::size_t tests() const = 0;
  // Sets gradients (as many as parameters) to `scale` times the sum of the derivatives of the losses of these examples. Returns
  // the sum of the losses.
  virtual double gradient(std::span<const std::uint32_t> examples, float scale, float* gradients) = 0;
  // The number of tests, of n from `begin` on, that are recognised.
  virtual std::size_t recognised(std::size_t begin, std::size_t n) = 0;
};

}  // namespace mq::bench
