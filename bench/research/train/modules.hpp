// The parts of a network. Each maps n rows of `in` numbers to n rows of `out` numbers and knows its
// derivative. Matrices are row-major; BLAS computes the products.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mq::bench {

struct Tensor {
  std::string name;
  std::size_t count = 0,
              fan_in = 0;  // weights: a row of fan_in for each output. fan_in 0: a bias, which begins at 0
};

class Module {
 public:
  Module(std::size_t inputs, std::size_t outputs) : in(inputs), out(outputs) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::size_t in, out;  // numbers per row
  // Its parameters, one tensor after the other in memory.
  virtual std::vector<Tensor> tensors() const { return {}; }
  virtual void forward(const float* parameters, const float* x, float* y, std::size_t n) = 0;
  // From dy, the derivative of the loss, it computes gradients and dx. It overwrites the gradients. dx may be
  // null; then it is not computed. x and y are as in the last forward; dy may be overwritten.
  virtual void backward(const float* parameters, float* gradients, const float* x, const float* y, float* dy,
                        float* dx, std::size_t n) = 0;
};

// y = x W^T + b, where W is out x in; max(0, y) if relu.
std::unique_ptr<Module> dense(std::string name, std::size_t in, std::size_t out, bool relu);

struct Picture {
  std::size_t channels, rows, columns;
  std::size_t size() const { return channels * rows * columns; }
};
// A convolution with filters of side x side, without a border, then max(0, y).
std::unique_ptr<Module> convolution(std::string name, Picture in, std::size_t filters, std::size_t side);
// The largest of each 2 x 2 numbers. An odd last row or column is dropped.
std::unique_ptr<Module> pooling(Picture in);

}  // namespace mq::bench
