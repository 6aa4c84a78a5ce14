#include "tests/kernels/inputs.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <utility>

namespace mq::test {
template <class T>
std::vector<T> fresh_input(Input input, std::size_t n, std::uint64_t seed_value) {
  if (input == Input::constant) return std::vector<T>(n, static_cast<T>(-3.7));
  std::mt19937_64 random(seed_value * 1000003 + static_cast<std::uint64_t>(input));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(-1, 1);
  constexpr double kMin = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = uniform(random), g = normal(random);
    double v = 0;
    switch (input) {
      case Input::normal: v = g; break;
      case Input::laplace: v = std::copysign(-std::log(1 - std::abs(u) * 0.999999), u); break;
      case Input::uniform: v = u; break;
      case Input::signs: v = u < 0 ? -0.25 : 0.25; break;
      case Input::constant: break;  // above
      case Input::zeros: v = u < 0 ? -0.0 : 0.0; break;
      case Input::one_sided: v = std::abs(g) + 0.1; break;
      case Input::spikes: v = u > 0.999 ? 1e4 * u : 1e-4 * g; break;
      case Input::tiny: v = g * 1e-30; break;
      case Input::subnormal: v = u * kMin; break;
      case Input::huge: v = u * kMax * 0.99; break;
      case Input::mixed_scales: v = g * std::pow(10.0, static_cast<double>(i / 97 % 13) - 6); break;
    }
    x[i] = static_cast<T>(v);
  }
  return x;
}

template <class T>
std::vector<T> make_input(Input input, std::size_t n, std::uint64_t seed_value) {
  thread_local std::map<std::pair<Input, std::uint64_t>, std::vector<T>> drawn;
  if (drawn.size() > 100) drawn.clear();
  std::vector<T>& values = drawn[{input, seed_value}];
  if (values.size() < n) values = fresh_input<T>(input, n, seed_value);
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)};
}

template std::vector<float> fresh_input(Input, std::size_t, std::uint64_t);
template std::vector<double> fresh_input(Input, std::size_t, std::uint64_t);
template std::vector<float> make_input(Input, std::size_t, std::uint64_t);
template std::vector<double> make_input(Input, std::size_t, std::uint64_t);

}  // namespace mq::test
