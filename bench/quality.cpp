#include "bench/quality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string_view>

#include "bench/elements.hpp"

namespace mq::bench {
namespace {

using kernels::Codec;
using kernels::Feedback;

constexpr double kPrecision = 1e-6;  // smaller relative errors are only the rounding of floats

template <class H>
double rounding_error(std::span<const float> v, std::span<const float>) {
  double error2 = 0;
  for (const float x : v) {
    const double e = static_cast<double>(x) - static_cast<double>(H(static_cast<double>(x)));
    error2 += e * e;
  }
  return error2;
}

double two_levels(std::span<const float> v, std::span<const float>) { return two_level_error(v); }

double ternary(std::span<const float> v, std::span<const float> decoded) {
  return ternary_error(
      v, decoded.size() - static_cast<std::size_t>(std::count(decoded.begin(), decoded.end(), 0.0F)));
}

double sparse(std::span<const float> v, std::span<const float> decoded) {
  return sparse_error(
      v, decoded.size() - static_cast<std::size_t>(std::count(decoded.begin(), decoded.end(), 0.0F)));
}

// The least squared error of a block that decodes to this form. The second argument is what the codec
// decoded.
using Optimum = double (*)(std::span<const float>, std::span<const float>);
Optimum optimum_of(kernels::Form form) {
  switch (form) {
    case kernels::Form::other: break;
    case kernels::Form::bf16: return rounding_error<Bfloat16>;
    case kernels::Form::f16: return rounding_error<Float16>;
    case kernels::Form::two_values: return two_levels;
    case kernels::Form::three_values: return ternary;
    case kernels::Form::few_elements: return sparse;
  }
  return nullptr;
}

constexpr std::array<std::string_view, 16> kVariants{
    "onebit(block=64)",             // shows what shorter blocks gain if scales differ
    "threshold(quantile=0.96875)",  // sends 1 of 32 elements, as the adaptive preset does
    "adaptive(pi=64)",
    "adaptive(pi=256)",
    "topk(k=0.001)",
    "qsgd(bits=2)",
    "qsgd(bits=8)",
    "int8(block=32)",
    "int4(block=32)",
    "minifloat(exp=2,man=1)",
    "minifloat(man=4)",
    "rangefloat(bits=4,man=1)",
    "rangefloat(bits=6,man=2)",
    "bound(rel=1e-04)",
    "bound(abs=1e-05)",
    "bound(abs=1e-07)"};

double norm2(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * static_cast<double>(x);
  return sum;
}

double ratio(double error2, double of2) { return error2 == 0 ? 0 : std::sqrt(error2 / of2); }

// A method with the state that it keeps from call to call.
struct Coder {
  Coder(const MethodWord& word, std::size_t n)
      : codec(word.method.codec),
        given(word.method.params),
        params(given),
        ops(codec->ops(kernels::Element::f32, kernels::best_isa())),
        residual(n),
        decoded(n) {}

  // Measures what the codec wants to know of a vector: of the first one, or of each.
  void settle(std::span<const float> x, bool is_first) {
    const kernels::Measures when = codec->measures(given);
    if (when == kernels::Measures::each_call || (is_first && when == kernels::Measures::once_a_key))
      params = codec->settle(given, codec->measure(x.data(), x.size(), kernels::Element::f32, given));
    wire.resize(codec->wire_bound(x.size(), kernels::Element::f32, params));
  }
  std::size_t encode(std::span<const float> x, Feedback feedback) {
    ++noise.call;
    return ops->encode({x.data(), residual.data(), feedback, x.size(), params, wire.data(), noise}).bytes;
  }
  void decode(std::size_t bytes) {
    if (ops->decode({wire.data(), bytes, decoded.size(), params, nullptr, decoded.data(), false, noise}) !=
        kernels::Decoded::ok)
      std::abort();  // cannot happen: a codec can read its own bytes, and its tests check that
  }

  const Codec* codec;
  kernels::Params given, params;
  const kernels::CodecOps* ops;
  std::vector<float> residual, decoded;
  std::vector<std::byte> wire;
  kernels::NoiseIndex noise;
};

double optimum2(const Coder& c, std::span<const float> x) {
  const Optimum optimum = optimum_of(c.codec->form(c.params));
  if (optimum == nullptr) return kUnknown;
  const std::size_t block = c.codec->whole(c.params) ? x.size() : c.codec->block(c.params);
  double error2 = 0;
  for (std::size_t at = 0; at < x.size(); at += block) {
    const std::size_t n = std::min(block, x.size() - at);
    error2 += optimum(x.subspan(at, n), std::span<const float>(c.decoded).subspan(at, n));
  }
  return error2;
}

void first_call(Coder& c, std::span<const float> x, Quality& q) {
  c.settle(x, true);
  const std::size_t bytes = c.encode(x, Feedback::none);
  c.decode(bytes);
  double error2 = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = static_cast<double>(x[i]) - static_cast<double>(c.decoded[i]);
    error2 += e * e;
  }
  const double of2 = norm2(x);
  q.bytes_per_element = static_cast<double>(bytes) / static_cast<double>(x.size());
  q.rel_err = ratio(error2, of2);
  q.optimum = ratio(optimum2(c, x), of2);
  if (q.optimum > kPrecision) q.over_optimum = q.rel_err / q.optimum;
}

// (sum of the first i)^2 / i for i = 0, ..., n: how much a level for the first i elements takes off the
// error.
template <class Order>
std::vector<double> gains(std::vector<double> v, Order order) {
  std::sort(v.begin(), v.end(), order);
  std::vector<double> gain{0};
  double sum = 0;
  for (const double x : v) {
    sum += x;
    gain.push_back(sum * sum / static_cast<double>(gain.size()));
  }
  return gain;
}

}  // namespace

double two_level_error(std::span<const float> v) {
  if (v.empty()) return 0;
  std::vector<double> x(v.begin(), v.end());
  double mean = 0;
  for (const double a : x) mean += a / static_cast<double>(x.size());
  double total = 0;
  for (double& a : x) {
    a -= mean;  // avoids cancellation
    total += a * a;
  }
  const auto low = gains(x, std::less<>()), high = gains(x, std::greater<>());
  double best = 0;
  for (std::size_t i = 0; i <= x.size(); ++i) best = std::max(best, low[i] + high[x.size() - i]);
  return std::max(0.0, total - best);
}

double ternary_error(std::span<const float> v, std::size_t k) {
  std::vector<double> above, below;
  double total = 0;
  for (const float x : v) {
    if (x > 0) above.push_back(static_cast<double>(x));
    if (x < 0) below.push_back(static_cast<double>(x));
    total += static_cast<double>(x) * static_cast<double>(x);
  }
  k = std::min(k, above.size() + below.size());
  const auto high = gains(above, std::greater<>()), low = gains(below, std::less<>());
  double best = 0;
  for (std::size_t i = k - std::min(k, below.size()); i <= std::min(k, above.size()); ++i)
    best = std::max(best, high[i] + low[k - i]);
  return std::max(0.0, total - best);
}

double sparse_error(std::span<const float> v, std::size_t k) {
  std::vector<double> energy;
  for (const float x : v) energy.push_back(static_cast<double>(x) * static_cast<double>(x));
  std::sort(energy.begin(), energy.end());
  double error2 = 0;
  for (std::size_t i = 0; i + k < energy.size(); ++i) error2 += energy[i];
  return error2;
}

std::vector<MethodWord> quality_methods() {
  std::vector<MethodWord> words;
  const auto add = [&](const Method& method) { words.push_back({mq::to_string(method), method, ""}); };
  for (const Codec& codec : kernels::codecs()) {
    const Method preset{&codec, kernels::preset_params(codec), nullptr, nullptr, {}};
    add(preset);
    for (std::size_t i = 0; i < codec.specs.size(); ++i)
      for (std::size_t w = 0; w < codec.specs[i].words.size(); ++w) {
        Method other = preset;
        other.params.value[i] = static_cast<double>(w);
        if (!(other == preset)) add(other);
      }
    for (const std::string_view variant : kVariants) {
      auto method = parse_method(variant);
      if (method.ok() && method->codec == &codec) add(*method);
    }
  }
  return words;
}

std::span<const std::string_view> quality_variants() { return kVariants; }

std::vector<Quality> measure_quality(std::span<const MethodWord> methods, const DataSpec& data, std::size_t n,
                                     int calls, std::shared_ptr<const Recording> recording) {
  const Generator generator(data, recording);
  std::vector<Coder> coders;
  std::vector<Quality> rows(methods.size());
  for (const MethodWord& word : methods) coders.emplace_back(word, n);
  std::vector<float> x(n);
  for (int call = 0; call < calls; ++call) {
    const auto number = static_cast<std::size_t>(call);
    if (recording)
      generator.fill(std::span(x), 0, has_step(data.path) ? recording->first("", number) : number * n);
    else
      generator.fill(std::span(x), call, 0);
    for (std::size_t m = 0; m < methods.size(); ++m) {
      if (call == 0) first_call(coders[m], x, rows[m]);
      coders[m].settle(x, false);
      (void)coders[m].encode(x, Feedback::carry);
    }
  }
  for (std::size_t m = 0; m < methods.size(); ++m) {
    rows[m].method = methods[m].text;
    rows[m].data = to_string(data);
    rows[m].elements = n;
    rows[m].calls = calls;
    rows[m].residual = ratio(norm2(coders[m].residual), norm2(x));
  }
  return rows;
}

std::string quality_csv(std::span<const Quality> rows) {
  const auto number = [](double x) { return std::isnan(x) ? std::string() : fmt::format("{:.5g}", x); };
  std::string text = "method,data,elements,bytes_per_element,rel_err,optimum,over_optimum,calls,residual\n";
  for (const Quality& q : rows)
    text += fmt::format("\"{}\",{},{},{},{},{},{},{},{}\n", q.method, q.data, q.elements,
                        number(q.bytes_per_element), number(q.rel_err), number(q.optimum),
                        number(q.over_optimum), q.calls, number(q.residual));
  return text;
}

}  // namespace mq::bench
