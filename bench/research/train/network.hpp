// A network that distinguishes ten classes: modules, their parameters and the gradient of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/research/train/idx.hpp"
#include "bench/research/train/modules.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// "mlp:512x512" (the widths of the hidden layers; "mlp" has none) or "cnn:8x16" (the filters of the two
// layers).
struct NetworkSpec {
  enum class Kind : std::uint8_t { mlp, cnn } kind = Kind::mlp;
  std::vector<std::size_t> widths;
};
Result<NetworkSpec> parse_network(const std::string& text);

// The place of a tensor among all parameters.
struct Span {
  std::string name;
  std::size_t begin = 0, count = 0;
  std::size_t row = 0;  // elements of a row, if it is a matrix, stored row by row; otherwise 0
};

// What a Trainer trains: parameters, images, and the gradient of the loss.
class Network {
 public:
  // The parameters begin as in He et al. 2015, and are a function of the seed.
  Network(const NetworkSpec& spec, const Images& train, const Images& test, std::uint64_t seed);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  std::span<float> parameters() { return parameters_; }
  const std::vector<Span>& tensors() const { return tensors_; }
  std::size_t examples() const { return train_.count; }
  std::size_t tests() const { return test_.count; }
  // Sets gradients (as many as parameters) to `scale` times the sum of the derivatives of the losses of these
  // examples. Returns the sum of the losses.
  double gradient(std::span<const std::uint32_t> examples, float scale, float* gradients);
  // The number of tests, of n from `begin` on, that are recognised.
  std::size_t recognised(std::size_t begin, std::size_t n);

 private:
  static constexpr std::size_t kClasses = 10;
  struct Stage {
    std::unique_ptr<Module> module;
    std::size_t begin;  // of its parameters
    std::vector<float> y, dy;
  };
  void add(std::unique_ptr<Module> module);
  const float* forward(const float* images, std::size_t n);  // n rows of scores

  const Images &train_, &test_;
  std::vector<float> batch_;  // the images of a gradient
  std::vector<Stage> stages_;
  std::vector<Span> tensors_;
  std::vector<float> parameters_;
};

}  // namespace mq::bench
