// A network that distinguishes ten classes: modules, their parameters and the gradient of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/train/idx.hpp"
#include "bench/train/modules.hpp"
#include "bench/train/problem.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// "mlp:512x512" (the widths of the hidden layers; "mlp" has none) or "cnn:8x16" (the filters of the two
// layers); or "logistic:0.1" (the weight of the regulariser), which is no network.
struct NetworkSpec {
  enum class Kind : std::uint8_t { mlp, cnn, logistic } kind = Kind::mlp;
  std::vector<std::size_t> widths;
  double lambda = 0.1;
};
Result<NetworkSpec> parse_network(const std::string& text);

class Network : public Problem {
 public:
  // The parameters begin as in He et al. 2015, and are a function of the seed.
  Network(const NetworkSpec& spec, const Images& train, const Images& test, std::uint64_t seed);

  std::span<float> parameters() override { return parameters_; }
  const std::vector<Span>& tensors() const override { return tensors_; }
  std::size_t examples() const override { return train_.count; }
  std::size_t tests() const override { return test_.count; }
  double gradient(std::span<const std::uint32_t> examples, float scale, float* gradients) override;
  std::size_t recognised(std::size_t begin, std::size_t n) override;

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
