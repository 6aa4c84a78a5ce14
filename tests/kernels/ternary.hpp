// What the tests of the sparse codecs (threshold, adaptive, topk) share: the words of
// parameters, and the entries of a decoded block.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {

// The words of the parameters, as positions.
enum Search { kExact, kApprox, kDryden };
enum WireFormat { kAuto, kGap, kU16, kU32, kDense, kMarked };

template <class T>
std::size_t entries_of(const std::vector<T>& decoded) {
  return static_cast<std::size_t>(std::count_if(decoded.begin(), decoded.end(), [](T v) { return v != 0; }));
}

// The mean of many calls with one input and feedback is that input, to what the residual still holds.
inline void expect_mean_of_calls_right(const Row<float>& row, Input input, int calls) {
  const std::size_t n = 4096;
  const auto g = make_input<float>(input, n, seed());
  std::vector<float> residual(n);
  std::vector<double> sum(n);
  for (int t = 0; t < calls; ++t) {
    const Coded<float> got = row.run(g, residual, kernels::Feedback::carry);
    residual = got.residual;
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(got.decoded[i]);
  }
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_LE(std::abs(sum[i] / calls - static_cast<double>(g[i])),
              std::abs(static_cast<double>(residual[i])) / calls + 1e-4)
        << "at " << i;
}

// Few different magnitudes, so that every bound has ties; many zeros.
template <class T>
std::vector<T> stepped(std::size_t n, std::uint64_t seed_value) {
  std::vector<T> x = make_input<T>(Input::normal, n, seed_value);
  for (T& v : x) v = std::trunc(2 * v) / 2;
  return x;
}

// The scale jumps from one stretch to the next by up to 10^12.
template <class T>
std::vector<T> jumping(std::size_t n, std::size_t stretch, std::uint64_t seed_value) {
  constexpr double kScales[]{1, 1e-6, 1e6, 0, 1e3, 1e3, 1e-3, 1};
  std::vector<T> x = make_input<T>(Input::laplace, n, seed_value);
  for (std::size_t i = 0; i < n; ++i) x[i] *= static_cast<T>(kScales[i / stretch % 8]);
  return x;
}

}  // namespace mq::test
