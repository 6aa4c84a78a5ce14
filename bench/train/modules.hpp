// The parts of a network: each maps n rows of `in` numbers to n rows of `out`, and knows its derivative.
// Matrices are row-major; products are BLAS's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mq::bench {

struct Tensor {
  std::string name;
  std::size_t count = 0, fan_in = 0;  // fan_in 0: a bias, which begins at 0
};

class Module {
 public:
  Module(std::size_t inputs, std::size_t outputs) : in(inputs), out(outputs) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::size_t in, out;  // numbers of a row
  // Its parameters, one tensor after the other in memory.
  virtual std::vector<Tensor> tensors() const { return {}; }
  virtual void forward(const float* parameters, const float* x, float* y, std::size_t n) = 0;
  // From the derivative dy of the loss to gradients, which are added to nothing but replaced, and to dx
  // unless that is null. x and y are those of the last forward; dy may be overwritten.
  virtual void backward(const float* parameters, float* gradients, const float* x, const float* y, float* dy,
                        float* dx, std::size_t n) = 0;
};

// y = x W + b, W of in x out, and max(0, y) if relu.
std::unique_ptr<Module> dense(std::string name, std::size_t in, std::size_t out, bool relu);

struct Picture {
  std::size_t channels, rows, columns;
  std::size_t size() const { return channels * rows * columns; }
};
// Convolution with filters of side x side without a border, then max(0, y).
std::unique_ptr<Module> convolution(std::string name, Picture in, std::size_t filters, std::size_t side);
// The largest of each 2 x 2; an odd last row or column is dropped.
std::unique_ptr<Module> pooling(Picture in);

}  // namespace mq::bench
