// A network that distinguishes ten classes: modules, their parameters and the gradient of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/train/modules.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// "mlp:512x512" (the widths of the hidden layers; "mlp" has none) or "cnn:8x16" (the filters of the two
// layers).
struct NetworkSpec {
  bool convolutional = false;
  std::vector<std::size_t> widths;
};
Result<NetworkSpec> parse_network(const std::string& text);

// The place of a tensor among all parameters.
struct Span {
  std::string name;
  std::size_t begin = 0, count = 0;
};

class Network {
 public:
  // For pictures of side x side. The parameters begin as in He et al. 2015, and are a function of the seed.
  Network(const NetworkSpec& spec, std::size_t side, std::uint64_t seed);

  std::span<float> parameters() { return parameters_; }
  const std::vector<Span>& tensors() const { return tensors_; }
  // Sets gradients (as many as parameters) to `scale` times the sum of the derivatives of the cross entropies
  // of the n images. Returns the sum of the entropies.
  double gradient(const float* images, const std::uint8_t* labels, std::size_t n, float scale,
                  float* gradients);
  // The number of images, of n, that are recognised.
  std::size_t recognised(const float* images, const std::uint8_t* labels, std::size_t n);

 private:
  static constexpr std::size_t kClasses = 10;
  struct Stage {
    std::unique_ptr<Module> module;
    std::size_t begin;  // of its parameters
    std::vector<float> y, dy;
  };
  void add(std::unique_ptr<Module> module);
  const float* forward(const float* images, std::size_t n);  // n rows of scores

  std::vector<Stage> stages_;
  std::vector<Span> tensors_;
  std::vector<std::size_t> fan_in_;
  std::vector<float> parameters_;
};

}  // namespace mq::bench
