// How good one bit an element is, in every variant: against the optimum of its format, computed here
// independently, and against theory. NMSE is |v - decoded|^2 / |v|^2.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

const kernels::Codec& onebit() { return *kernels::find_codec("onebit"); }

kernels::Params with(std::initializer_list<std::pair<std::string_view, double>> values) {
  kernels::Params params = kernels::preset_params(onebit());
  for (const auto& [param, value] : values) params.value[position(onebit(), param)] = value;
  return params;
}

constexpr double kColumn = 1, kTensor = 2, kAtMean = 1;  // words of means and split

template <class Row>
double value(const Row& row, std::string_view param) {
  return row.params.value[position(*row.codec, param)];
}

struct Span {
  std::size_t begin, n;
};

// The blocks of a vector, written down independently of the codec.
template <class Row>
std::vector<Span> blocks(const Row& row, std::size_t n) {
  const auto rows = static_cast<std::size_t>(value(row, "rows"));
  std::size_t first = static_cast<std::size_t>(value(row, "block")), gap = 0;
  if (value(row, "means") == kTensor) first = n;
  if (value(row, "means") == kColumn && rows > 0) {
    first = rows;
    gap = std::max(rows, static_cast<std::size_t>(value(row, "ld"))) - rows;
  }
  std::vector<Span> all;
  for (std::size_t begin = 0; begin < n;)
    for (const std::size_t length : {first, gap}) {
      const std::size_t m = std::min(length, n - begin);
      if (m > 0) all.push_back({begin, m});
      begin += m;
    }
  return all;
}

template <class T>
std::vector<T> part(const std::vector<T>& x, Span s) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(s.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(s.n)};
}

template <class T>
long double mean(const std::vector<T>& x) {
  long double sum = 0;
  for (const T v : x) sum += static_cast<long double>(v);
  return x.empty() ? 0 : sum / static_cast<long double>(x.size());
}

template <class T>
long double mean_magnitude(const std::vector<T>& x) {
  long double sum = 0;
  for (const T v : x) sum += std::abs(static_cast<long double>(v));
  return x.empty() ? 0 : sum / static_cast<long double>(x.size());
}

// Sums in the element type, at most 128 terms a lane; and half a subnormal step.
template <class T>
long double tolerance(const std::vector<T>& x) {
  return mean_magnitude(x) * (sizeof(T) == 4 ? 1e-5L : 1e-13L) + std::numeric_limits<T>::denorm_min();
}

// Everything on one side of the threshold decodes to the mean of that side.
template <class T>
void expect_centroids(const std::vector<T>& x, const std::vector<T>& y, long double threshold,
                      const std::string& where) {
  std::vector<T> side[2];
  for (const T v : x) side[static_cast<long double>(v) >= threshold].push_back(v);
  const long double expected[]{mean(side[0]), mean(side[1])};
  const long double tolerances[]{tolerance(side[0]), tolerance(side[1])};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool above = static_cast<long double>(x[i]) >= threshold;
    ASSERT_LE(std::abs(static_cast<long double>(y[i]) - expected[above]), tolerances[above])
        << where << " at " << i;
  }
}

// Where a block is split: at its mean, if it is to be and the mean is far from zero, else at zero.
template <class T>
long double split_of(const std::vector<T>& v, bool at_mean) {
  if (!at_mean || v.size() < 2) return 0;
  std::vector<T> side[2];
  for (const T e : v) side[e >= T{0}].push_back(e);
  return 16 * std::abs(mean(v)) > mean(side[1]) - mean(side[0]) ? mean(v) : 0;
}

// Inputs whose mean the codec, which rounds it, and a test, which rounds it less, might put on different
// sides of an element.
bool ambiguous_mean(Input input) {
  return input == Input::constant || input == Input::zeros || input == Input::subnormal;
}

TEST(OneBit, reconstruction_is_the_centroid_of_each_side_of_each_block) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const bool at_mean = value(row, "split") == kAtMean;
    for (const Input input : kInputs) {
      if (at_mean && ambiguous_mean(input)) continue;
      const std::size_t n = 2 * row.block() + 77;
      const auto x = make_input<T>(input, n, seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      for (const Span span : blocks(row, n)) {
        const auto v = part(x, span);
        expect_centroids(v, part(y, span), split_of(v, at_mean && input != Input::huge),
                         row.describe(n, name(input)));
      }
    }
  });
}

TEST(OneBit, a_mean_near_zero_does_not_move_the_split) {
  std::vector<float> x(2048);  // sides of +1 and -1, and one element between zero and the mean
  for (const float share : {0.54F, 0.58F}) {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i) < share * static_cast<float>(x.size()) ? 1.0F : -1.0F;
    x[7] = 0.001F;
    const Row<float> row{&onebit(), with({{"split", kAtMean}}), kernels::best_isa()};
    const auto y = row.run(x, {}, Feedback::none).decoded;
    EXPECT_EQ(y[7] > 0, share < 0.56F) << "the mean is " << 2 * share - 1 << ", the sides are 2 apart";
  }
}

TEST(OneBit, error_energy_is_what_the_centroids_leave) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::laplace, Input::one_sided}) {
      const auto x = make_input<T>(input, 8 * row.block(), seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      const double expected = squares(x) - squares(y);  // Pythagoras, since y is the conditional mean
      ASSERT_NEAR(squared_error(x, y), expected, 1e-5 * squares(x)) << row.describe(x.size(), name(input));
    }
  });
}

TEST(OneBit, moving_either_mean_of_a_block_raises_its_error) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const auto x = make_input<T>(Input::laplace, 3 * row.block() + 5, seed());
    const auto y = row.run(x, {}, Feedback::none).decoded;
    for (const Span span : blocks(row, x.size())) {
      const auto v = part(x, span), decoded = part(y, span);
      const double error = squared_error(v, decoded), scale = static_cast<double>(mean_magnitude(v));
      for (const T side : {*std::min_element(decoded.begin(), decoded.end()),
                           *std::max_element(decoded.begin(), decoded.end())})
        for (const double step : {-1e-3, 1e-3}) {
          auto moved = decoded;
          for (T& d : moved)
            if (d == side) d += static_cast<T>(step * scale);
          ASSERT_GT(squared_error(v, moved), error) << row.describe(x.size(), "") << " at " << span.begin;
        }
    }
  });
}

TEST(OneBit, error_is_less_than_that_of_sending_nothing) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : kInputs) {
      if (input == Input::zeros) continue;
      const auto x = make_input<T>(input, 5000, seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      long double error = 0, energy = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto v = static_cast<long double>(x[i]), d = v - static_cast<long double>(y[i]);
        error += d * d;
        energy += v * v;
      }
      ASSERT_LT(error, energy) << row.describe(5000, name(input));
    }
  });
}

TEST(OneBit, every_column_has_its_own_optimum_whatever_its_scale) {
  for (const double ld : {100.0, 103.0}) {
    const Row<float> row{&onebit(), with({{"means", kColumn}, {"split", 0}, {"rows", 100}, {"ld", ld}}),
                         kernels::best_isa()};
    auto x = make_input<float>(Input::normal, 40 * static_cast<std::size_t>(ld), seed());
    const std::vector<Span> all = blocks(row, x.size());
    for (std::size_t b = 0; b < all.size(); ++b)
      for (std::size_t i = 0; i < all[b].n; ++i) x[all[b].begin + i] *= b % 3 == 1 ? 1e-6F : b % 3 ? 1e6F : 1;
    const auto y = row.run(x, {}, Feedback::none).decoded;
    for (const Span span : all) {
      const auto v = part(x, span);
      std::vector<float> side[2];
      for (const float e : v) side[e >= 0].push_back(e);
      const long double means[]{mean(side[0]), mean(side[1])};
      double optimum = 0;
      for (const float e : v) optimum += std::pow(static_cast<double>(e - means[e >= 0]), 2);
      ASSERT_NEAR(squared_error(v, part(y, span)), optimum, 1e-5 * squares(v)) << "column at " << span.begin;
    }
  }
}

TEST(OneBit, means_of_a_tensor_are_right_at_any_length) {
  for (const double split : {0.0, kAtMean})
    for (std::size_t n = 1; n <= 1000000; n = n * 3 + 1) {
      const Row<float> row{&onebit(), with({{"means", kTensor}, {"split", split}}), kernels::best_isa()};
      const auto x = make_input<float>(Input::laplace, n, seed());
      const Coded<float> coded = row.run(x, {}, Feedback::none);
      ASSERT_EQ(coded.wire.size(), 8 + (n + 7) / 8);
      expect_centroids(x, coded.decoded, split_of(x, split == kAtMean), row.describe(n, "tensor"));
    }
}

TEST(OneBit, a_tensor_of_huge_values_has_finite_means) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (value(row, "means") != kTensor) return;
    constexpr T kMax = std::numeric_limits<T>::max();
    std::vector<T> x(20000, kMax);
    std::fill(x.begin() + 3, x.begin() + 9000, -kMax);
    const Coded<T> coded = row.run(x, std::vector<T>(x.size()), Feedback::carry);
    ASSERT_EQ(coded.nonfinite, 0u);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(std::abs(coded.decoded[i] / x[i] - 1), 4 * std::numeric_limits<T>::epsilon()) << i;
      ASSERT_TRUE(std::isfinite(coded.residual[i])) << i;
    }
  });
}

TEST(OneBit, splitting_at_the_mean_never_overflows_a_residual) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kMax = std::numeric_limits<T>::max();
    // Split at its mean, -0.66 of the largest number, the upper side would be 0.68 and v - 0.68 = -1.28 of
    // it.
    std::vector<T> x(25, -kMax);
    x[20] = T{-0.6} * kMax;
    std::fill(x.begin() + 21, x.end(), kMax);
    const Coded<T> coded = row.run(x, std::vector<T>(x.size()), Feedback::carry);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(std::isfinite(coded.residual[i])) << row.describe(x.size(), "") << " at " << i;
  });
}

TEST(OneBit, splitting_at_the_mean_halves_the_error_of_a_shifted_input_at_least) {
  for (const std::size_t n : {1000, 100000}) {
    auto x = make_input<float>(Input::normal, n, seed());
    for (float& v : x) v += 2.0F;
    for (const double means : {0.0, kTensor}) {
      const auto error = [&](double split) {
        const Row<float> row{&onebit(), with({{"means", means}, {"split", split}}), kernels::best_isa()};
        return squared_error(x, row.run(x, {}, Feedback::none).decoded);
      };
      EXPECT_LT(error(kAtMean), 0.5 * error(0)) << n;
    }
  }
}

TEST(OneBit, side_means_are_never_worse_than_the_mean_plus_minus_the_mean_distance) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (value(row, "split") != kAtMean) return;
    for (const Input input :
         {Input::normal, Input::laplace, Input::one_sided, Input::spikes, Input::mixed_scales}) {
      const auto x = make_input<T>(input, 2 * row.block() + 77, seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      for (const Span span : blocks(row, x.size())) {
        const auto v = part(x, span);
        const long double middle = split_of(v, true);
        if (middle == 0) continue;
        std::vector<long double> distance;
        for (const T e : v) distance.push_back(static_cast<long double>(e) - middle);
        const long double step = mean_magnitude(distance);
        double symmetric = 0;
        for (const long double d : distance)
          symmetric += std::pow(static_cast<double>(std::abs(d) - step), 2);
        ASSERT_LE(squared_error(v, part(y, span)), symmetric + 1e-9 * squares(v))
            << row.describe(x.size(), name(input)) << " at " << span.begin;
      }
    }
  });
}

TEST(OneBit, nmse_of_long_vectors_is_the_theory_of_the_distribution) {
  const std::map<Input, double> theory{
      {Input::normal, 1 - 2 / std::acos(-1.0)}, {Input::laplace, 0.5}, {Input::uniform, 0.25}};
  const kernels::Codec& codec = *kernels::find_codec("onebit");
  const Row<float> row{&codec, kernels::preset_params(codec), kernels::best_isa()};
  for (const auto& [input, nmse] : theory) {
    const auto x = make_input<float>(input, 1 << 20, seed());
    ASSERT_NEAR(squared_error(x, row.run(x, {}, Feedback::none).decoded) / squares(x), nmse, 0.03 * nmse)
        << name(input);
  }
}

TEST(OneBit, plus_minus_one_value_is_exact_and_leaves_no_residual) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::signs, Input::zeros}) {
      const auto x = make_input<T>(input, 1000, seed());
      const Coded<T> got = row.run(x, std::vector<T>(1000), Feedback::carry);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(got.decoded[i], x[i]) << name(input);
        ASSERT_EQ(got.residual[i], T{0}) << name(input);
      }
    }
  });
}

// Every set of parameters, on floats and the best instruction set.
template <class F>
void for_each_variant(const F& property) {
  for (const kernels::Params& params : param_sets(onebit()))
    property(Row<float>{&onebit(), params, kernels::best_isa()});
}

TEST(OneBit, feedback_makes_the_mean_of_many_calls_right) {
  const std::size_t n = 4096;
  const int calls = 200;
  const auto g = make_input<float>(Input::normal, n, seed());
  for_each_variant([&](const Row<float>& row) {
    std::vector<float> residual(n), mean_result(n);
    std::vector<double> sum(n);
    for (int t = 0; t < calls; ++t) {
      const Coded<float> got = row.run(g, residual, Feedback::carry);
      residual = got.residual;
      for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(got.decoded[i]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double missing = std::abs(sum[i] / calls - static_cast<double>(g[i]));
      ASSERT_LE(missing, std::abs(static_cast<double>(residual[i])) / calls + 1e-4)
          << row.describe(n, "") << "at " << i;
      mean_result[i] = static_cast<float>(sum[i] / calls);
    }
    EXPECT_LT(squared_error(g, mean_result), 0.01 * squares(g)) << row.describe(n, "0.36 without feedback");
  });
}

TEST(OneBit, residuals_of_independent_inputs_stay_below_the_theory_bound) {
  const std::size_t n = 4096;
  std::vector<std::vector<float>> inputs;
  for (std::uint64_t t = 0; t < (kSanitized ? 50 : 1000); ++t)
    inputs.push_back(make_input<float>(Input::normal, n, seed() + t));
  for_each_variant([&](const Row<float>& row) {
    std::vector<float> residual(n);
    const std::size_t calls =
        row.params == kernels::preset_params(onebit()) ? inputs.size() : inputs.size() / 5;
    for (std::size_t t = 0; t < calls; ++t) {
      residual = row.run(inputs[t], residual, Feedback::carry).residual;
      // Karimireddy et al. 2019: |e| <= 2 sqrt(1 - delta) / delta |g|, delta = 2 / pi for a normal input.
      ASSERT_LT(std::sqrt(squares(residual) / squares(inputs[t])), 1.9) << row.describe(n, "") << t;
    }
  });
}

}  // namespace
}  // namespace mq::test
