#include "bench/train/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

#include "bench/random.hpp"

namespace mq::bench {

namespace {

// The rest of "mlp:512x512" or "cnn:8x16".
bool take_widths(std::string_view rest, std::vector<std::size_t>& widths) {
  while (!rest.empty()) {
    std::size_t width = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), width);
    if (error != std::errc() || width == 0 || width > 65536) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    widths.push_back(width);
    if (rest.empty()) return true;
    if (rest[0] != 'x' || rest.size() == 1) return false;
    rest.remove_prefix(1);
  }
  return true;
}

}  // namespace

Result<NetworkSpec> parse_network(const std::string& text) {
  const auto bad = [&](const char* why) {
    return Status{Code::bad_argument, fmt::format("network '{}': {}: mlp:512x512 or cnn:8x16", text, why)};
  };
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string_view rest = colon == std::string::npos ? "" : std::string_view(text).substr(colon + 1);
  using Kind = NetworkSpec::Kind;
  NetworkSpec spec;
  if (kind != "mlp" && kind != "cnn") return bad("unknown kind");
  spec.kind = kind == "cnn" ? Kind::cnn : Kind::mlp;
  if (!take_widths(rest, spec.widths)) return bad("widths are 1 to 65536, joined by x");
  if (spec.kind == Kind::cnn && spec.widths.size() != 2) return bad("a cnn has two layers of filters");
  return spec;
}

Network::Network(const NetworkSpec& spec, const Images& train, const Images& test, std::uint64_t seed)
    : train_(train), test_(test) {
  const std::size_t side = train.rows;
  std::size_t width = side * side;
  if (spec.kind == NetworkSpec::Kind::cnn) {
    constexpr std::size_t kFilter = 5;
    Picture picture{1, side, side};
    for (std::size_t l = 0; l < 2; ++l) {
      add(convolution(fmt::format("conv{}", l + 1), picture, spec.widths[l], kFilter));
      picture = {spec.widths[l], picture.rows - kFilter + 1, picture.columns - kFilter + 1};
      add(pooling(picture));
      picture.rows /= 2;
      picture.columns /= 2;
    }
    width = picture.size();
  } else {
    for (std::size_t l = 0; l < spec.widths.size(); ++l) {
      add(dense(fmt::format("fc{}", l + 1), width, spec.widths[l], true));
      width = spec.widths[l];
    }
  }
  add(dense("out", width, kClasses, false));
  Random random(seed);
  const auto uniform = [&] { return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53; };
  for (std::size_t t = 0; t < tensors_.size(); ++t)
    for (std::size_t i = 0; i < tensors_[t].count && tensors_[t].row > 0; ++i) {
      const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
      parameters_[tensors_[t].begin + i] =
          static_cast<float>(normal * std::sqrt(2 / static_cast<double>(tensors_[t].row)));
    }
}

void Network::add(std::unique_ptr<Module> module) {
  const std::size_t begin = parameters_.size();
  for (const Tensor& tensor : module->tensors()) {
    tensors_.push_back({tensor.name, parameters_.size(), tensor.count, tensor.fan_in});
    parameters_.resize(parameters_.size() + tensor.count);
  }
  stages_.push_back({std::move(module), begin, {}, {}});
}

const float* Network::forward(const float* images, std::size_t n) {
  const float* x = images;
  for (Stage& stage : stages_) {
    if (stage.y.size() < n * stage.module->out) {
      stage.y.resize(n * stage.module->out);
      stage.dy.resize(stage.y.size());
    }
    stage.module->forward(parameters_.data() + stage.begin, x, stage.y.data(), n);
    x = stage.y.data();
  }
  return x;
}

double Network::gradient(std::span<const std::uint32_t> examples, float scale, float* gradients) {
  const std::size_t n = examples.size(), size = train_.size();
  batch_.resize(n * size);
  for (std::size_t i = 0; i < n; ++i)
    std::copy_n(&train_.pixels[examples[i] * size], size, &batch_[i * size]);
  const float* const scores = forward(batch_.data(), n);
  double loss = 0;
  float* const d_scores = stages_.back().dy.data();
  for (std::size_t i = 0; i < n; ++i) {
    const float *const row = scores + i * kClasses, most = *std::max_element(row, row + kClasses);
    float* const d = d_scores + i * kClasses;
    const std::uint8_t label = train_.labels[examples[i]];
    double sum = 0;
    for (std::size_t c = 0; c < kClasses; ++c) sum += std::exp(static_cast<double>(row[c] - most));
    for (std::size_t c = 0; c < kClasses; ++c)
      d[c] = scale * static_cast<float>(std::exp(static_cast<double>(row[c] - most)) / sum - (c == label));
    loss += std::log(sum) - static_cast<double>(row[label] - most);
  }
  for (std::size_t s = stages_.size(); s-- > 0;) {
    Stage& stage = stages_[s];
    const float* const x = s == 0 ? batch_.data() : stages_[s - 1].y.data();
    stage.module->backward(parameters_.data() + stage.begin, gradients + stage.begin, x, stage.y.data(),
                           stage.dy.data(), s == 0 ? nullptr : stages_[s - 1].dy.data(), n);
  }
  return loss;
}

std::size_t Network::recognised(std::size_t begin, std::size_t n) {
  constexpr std::size_t kAtOnce = 500;
  std::size_t right = 0;
  for (const std::size_t end = begin + n; begin < end;) {
    const std::size_t some = std::min(kAtOnce, end - begin);
    const float* const scores = forward(&test_.pixels[begin * test_.size()], some);
    for (std::size_t i = 0; i < some; ++i) {
      const float* const row = scores + i * kClasses;
      right += std::max_element(row, row + kClasses) - row == test_.labels[begin + i];
    }
    begin += some;
  }
  return right;
}

}  // namespace mq::bench
