// threshold: what is sent, what stays, and the quantile that tau may be.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::Codec;
using kernels::Feedback;
using kernels::Measured;
using kernels::Params;

TEST(Threshold, sends_one_quantum_of_each_element_that_has_reached_tau) {
  for (const double tau : {1e-18, 1e-3, 0.7, 1.0, 3.0, 1e18})
    for_each_isa("threshold", {{"tau", tau}, {"block", 1024}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const T quantum = static_cast<T>(tau);
      for (const Input input : kInputs) {
        auto x = make_input<T>(input, 2500, seed());
        x[7] = quantum, x[8] = -quantum;  // the bound itself is sent, the numbers below it are not
        x[9] = std::nextafter(quantum, T{0}), x[10] = -x[9];
        const Coded<T> got = row.run(x, std::vector<T>(x.size()), Feedback::carry);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const T expected = x[i] >= quantum ? quantum : x[i] <= -quantum ? -quantum : T{0};
          ASSERT_EQ(got.decoded[i], expected) << row.describe(x.size(), name(input)) << "at " << i;
          ASSERT_EQ(got.residual[i], x[i] - expected) << row.describe(x.size(), name(input)) << "at " << i;
        }
      }
    });
}

TEST(Threshold, pow2_rounds_tau_to_the_nearest_power_of_two_and_loses_no_bit) {
  struct Case {
    double tau, power;
  };
  for (const Case& c :
       {Case{1, 1}, Case{1.49, 1}, Case{1.5, 2}, Case{0.74, 0.5}, Case{0.75, 1}, Case{1e-3, 0x1p-10}})
    for_each_isa("threshold", {{"tau", c.tau}, {"round", 1}, {"block", 256}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      for (const Input input : {Input::normal, Input::laplace, Input::spikes, Input::mixed_scales,
                                Input::subnormal, Input::zeros, Input::tiny}) {
        const auto x = make_input<T>(input, 1000, seed());
        const auto before = make_input<T>(Input::uniform, 1000, seed());
        const Coded<T> got = row.run(x, before, Feedback::carry);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const T v = x[i] + before[i];
          ASSERT_TRUE(got.decoded[i] == 0 || std::abs(got.decoded[i]) == static_cast<T>(c.power));
          if (static_cast<double>(std::abs(v)) < 0x1p24 * c.power) {
            ASSERT_EQ(got.decoded[i] + got.residual[i], v) << row.describe(x.size(), name(input)) << i;
          }
        }
      }
    });
}

TEST(Threshold, sums_on_a_grid_are_exact_over_many_calls) {
  for_each_isa("threshold", {{"tau", 0.5}, {"block", 64}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 333;
    std::vector<T> residual(n), in(n), out(n);
    for (std::uint64_t t = 0; t < 50; ++t) {
      auto g = make_input<T>(Input::normal, n, seed() + t);
      for (T& v : g) v = std::round(v * 1024) / 4096;  // every sum below is a small multiple of 2^-12
      const Coded<T> got = row.run(g, residual, Feedback::carry);
      residual = got.residual;
      for (std::size_t i = 0; i < n; ++i) in[i] += g[i], out[i] += got.decoded[i];
    }
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(in[i], out[i] + residual[i]);
  });
}

TEST(Threshold, residuals_stay_below_tau_while_inputs_do_and_grow_where_they_do_not) {
  const Row<float> row = fastest("threshold", {{"tau", 6}});
  const std::size_t n = 1000;
  std::vector<float> residual(n), sum(n);
  for (std::uint64_t t = 0; t < 1000; ++t) {
    const auto g = make_input<float>(Input::normal, n, seed() + t);
    residual = row.run(g, residual, Feedback::carry).residual;
    for (std::size_t i = 0; i < n; ++i)
      if (std::abs(g[i]) < 6) {
        ASSERT_LT(std::abs(residual[i]), 6.0F) << "after " << t << " calls";
      }
  }
  std::vector<float> saturated(n);
  for (int t = 1; t <= 20; ++t) {
    saturated = row.run(std::vector<float>(n, 18), saturated, Feedback::carry).residual;
    ASSERT_EQ(saturated, std::vector<float>(n, static_cast<float>(12 * t))) << "one quantum a call";
  }
}

TEST(Threshold, feedback_makes_the_mean_of_many_calls_right) {
  // Inputs below tau: what the residual holds stays below it too.
  expect_mean_of_calls_right(fastest("threshold", {{"tau", 4}}), Input::uniform, 100);
}

const Codec& threshold() { return *kernels::find_codec("threshold"); }

template <class T>
Measured measured_of(const std::vector<T>& x, double quantile) {
  const Params params = with_values(threshold(), {{"quantile", quantile}});
  EXPECT_EQ(threshold().measures(params), kernels::Measures::once_a_key);
  return threshold().measure(x.data(), x.size(), Row<T>::kElement, params);
}

template <class T>
void expect_quantiles() {
  for (const double q : {0.1, 0.5, 0.9, 31.0 / 32, 0.999})
    for (const Input input : kInputs)
      for (const std::size_t n : {1, 2, 33, 5000}) {
        auto magnitudes = make_input<T>(input, n, seed());
        const double tau = measured_of(magnitudes, q)[0];
        for (T& v : magnitudes) v = std::abs(v);
        std::sort(magnitudes.begin(), magnitudes.end(), std::greater<T>());
        auto k = std::max<std::size_t>(1, static_cast<std::size_t>((1 - q) * static_cast<double>(n)));
        while (k > 1 && magnitudes[k - 1] == 0) --k;
        const auto exact = static_cast<double>(magnitudes[k - 1]);
        ASSERT_LE(tau, exact) << name(input) << " q=" << q << " n=" << n;
        ASSERT_GE(tau, exact * (1 - 0x1p-11) - static_cast<double>(std::numeric_limits<T>::min()) * 0x1p-11)
            << name(input) << " q=" << q << " n=" << n;
      }
}

TEST(Threshold, a_quantile_measures_the_magnitude_that_so_many_reach) {
  expect_quantiles<float>();
  expect_quantiles<double>();
}

TEST(Threshold, a_settled_quantile_sends_its_share_and_zeros_settle_nothing) {
  const Params given = with_values(threshold(), {{"tau", 2.5}, {"quantile", 0.96}});
  const auto x = make_input<float>(Input::laplace, 100000, seed());
  const Params settled = threshold().settle(given, measured_of(x, 0.96));
  const Row<float> row{&threshold(), settled, kernels::best_isa()};
  EXPECT_NEAR(static_cast<double>(entries_of(row.run(x, {}, Feedback::none).decoded)), 4000, 20);
  const Measured none = measured_of(std::vector<float>(1000), 0.96);
  EXPECT_EQ(none, Measured{});
  EXPECT_EQ(threshold().settle(given, none), given) << "tau as given";
  for (const double extreme : {1e-300, 1e300}) {
    const double tau = threshold().settle(given, {extreme}).value[0];
    EXPECT_TRUE(tau >= threshold().specs[0].min && tau <= threshold().specs[0].max);
  }
  EXPECT_EQ(threshold().measures(kernels::preset_params(threshold())), kernels::Measures::nothing);
}

TEST(Threshold, a_quantile_of_a_sparse_vector_sends_what_is_not_zero) {
  std::vector<float> x(10000);
  for (std::size_t i = 0; i < x.size(); i += 200) x[i] = i % 400 ? -0.25F : 0.5F;
  const Params settled =
      threshold().settle(with_values(threshold(), {{"quantile", 0.9}}), measured_of(x, 0.9));
  const Row<float> row{&threshold(), settled, kernels::best_isa()};
  EXPECT_EQ(entries_of(row.run(x, {}, Feedback::none).decoded), 50u);
}

TEST(Threshold, a_measurement_does_not_see_what_is_not_finite) {
  auto x = make_input<float>(Input::normal, 1000, seed());
  std::vector<float> without = x;
  for (const std::size_t i : {3, 500, 999}) {
    x[i] = i == 500 ? std::nanf("") : std::numeric_limits<float>::infinity();
    without[i] = 0;
  }
  EXPECT_EQ(measured_of(x, 0.9), measured_of(without, 0.9));
  EXPECT_EQ(measured_of(std::vector<float>(50, std::nanf("")), 0.5), Measured{});
}

}  // namespace
}  // namespace mq::test
