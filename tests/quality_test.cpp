// How good the lossy codecs are: against the optimum for their format and against theory, not only against
// themselves. NMSE is |v - decoded|^2 / |v|^2.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/inputs.hpp"
#include "tests/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

template <class T>
double squares(const std::vector<T>& x) {
  double sum = 0;
  for (const T v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

template <class T>
double squared_error(const std::vector<T>& x, const std::vector<T>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += d * d;
  }
  return sum;
}

template <class F>
void for_each_row_of(std::string_view codec, const F& property) {
  int rows = 0;
  for_each_row([&](const auto& row) {
    if (row.codec->name != codec) return;
    ++rows;
    property(row);
  });
  EXPECT_GT(rows, 0) << codec;
}

TEST(Quality, every_codec_returns_at_most_the_energy_error_of_sending_nothing) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::laplace, Input::uniform, Input::constant,
                              Input::one_sided, Input::spikes, Input::mixed_scales}) {
      const auto x = make_input<T>(input, 5000, seed());
      const auto decoded = row.run(x, {}, Feedback::none).decoded;
      const double error = squared_error(x, decoded);
      if (row.codec->name == "threshold")  // nothing where all are below tau, and little of a small tau
        ASSERT_LE(error, squares(x)) << row.describe(5000, name(input));
      else
        ASSERT_LT(error, squares(x)) << row.describe(5000, name(input));
    }
  });
}

TEST(Quality, every_codec_treats_signs_alike) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : {Input::normal, Input::one_sided, Input::spikes}) {
      auto x = make_input<T>(input, 3000, seed());
      const auto plus = row.run(x, {}, Feedback::none).decoded;
      for (T& v : x) v = -v;
      const auto minus = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(plus[i], -minus[i]) << row.describe(3000, name(input)) << " at " << i;
    }
  });
}

TEST(Bf16, relative_error_is_at_most_half_a_unit_in_the_eighth_bit) {
  for_each_row_of("bf16", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input :
         {Input::normal, Input::laplace, Input::uniform, Input::mixed_scales, Input::tiny}) {
      const auto x = make_input<T>(input, 4000, seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t i = 0; i < x.size(); ++i)  // doubles are rounded twice
        ASSERT_LE(std::abs(x[i] - y[i]),
                  std::abs(x[i]) * static_cast<T>(sizeof(T) == 4 ? 0x1p-8 : 0x1.00001p-8))
            << name(input) << " " << x[i];
    }
  });
}

TEST(Bf16, rounds_to_nearest_even_on_every_tie_and_beside_it) {
  const kernels::Codec& codec = *kernels::find_codec("bf16");
  const Row<float> row{&codec, {}, kernels::best_isa()};
  for (std::uint32_t upper = 0; upper < 0x7f80; ++upper) {
    std::vector<float> x;
    for (const std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u})
      x.push_back(std::bit_cast<float>(upper << 16 | low));
    const auto y = row.run(x, {}, Feedback::none).decoded;
    const std::uint32_t tie = upper + (upper & 1);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[0]), upper << 16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[1]), tie << 16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[2]), (upper + 1) << 16);
  }
}

// Means of both sides of one block in long double.
template <class T>
std::pair<double, double> side_means(const T* v, std::size_t n) {
  long double sum[2] = {};
  std::size_t count[2] = {};
  for (std::size_t i = 0; i < n; ++i) {
    sum[v[i] >= 0] += static_cast<long double>(v[i]);
    ++count[v[i] >= 0];
  }
  const auto mean = [&](int s) {
    return count[s] ? static_cast<double>(sum[s] / static_cast<long double>(count[s])) : 0.0;
  };
  return {mean(0), mean(1)};
}

TEST(OneBit, reconstruction_is_the_centroid_of_each_side_of_each_block) {
  for_each_row_of("onebit", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : kInputs) {
      const std::size_t n = 2 * row.block() + 77;
      const auto x = make_input<T>(input, n, seed());
      const auto y = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t begin = 0; begin < n; begin += row.block()) {
        const std::size_t m = std::min(row.block(), n - begin);
        const auto [below, above] = side_means(x.data() + begin, m);
        for (std::size_t i = begin; i < begin + m; ++i) {
          const double mean = x[i] >= 0 ? above : below;
          // Sums of one sign in the element type, at most 128 terms a lane; and half a subnormal step.
          const double tolerance = std::abs(mean) * (sizeof(T) == 4 ? 1e-5 : 1e-13) +
                                   static_cast<double>(std::numeric_limits<T>::denorm_min());
          ASSERT_NEAR(static_cast<double>(y[i]), mean, tolerance)
              << row.describe(n, name(input)) << " at " << i;
        }
      }
    }
  });
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

TEST(OneBit, feedback_makes_the_mean_of_many_calls_right) {
  const kernels::Codec& codec = *kernels::find_codec("onebit");
  const Row<float> row{&codec, kernels::preset_params(codec), kernels::best_isa()};
  const std::size_t n = 4096;
  const int calls = 200;
  const auto g = make_input<float>(Input::normal, n, seed());
  std::vector<float> residual(n);
  std::vector<double> sum(n);
  for (int t = 0; t < calls; ++t) {
    const Coded<float> got = row.run(g, residual, Feedback::carry);
    residual = got.residual;
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(got.decoded[i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double missing = std::abs(sum[i] / calls - static_cast<double>(g[i]));
    ASSERT_LE(missing, std::abs(static_cast<double>(residual[i])) / calls + 1e-4) << "at " << i;
  }
  std::vector<float> mean(n);
  for (std::size_t i = 0; i < n; ++i) mean[i] = static_cast<float>(sum[i] / calls);
  EXPECT_LT(squared_error(g, mean), 0.01 * squares(g)) << "0.36 without feedback";
}

TEST(OneBit, residuals_of_independent_inputs_stay_below_the_theory_bound) {
  const kernels::Codec& codec = *kernels::find_codec("onebit");
  const Row<float> row{&codec, kernels::preset_params(codec), kernels::best_isa()};
  const std::size_t n = 4096;
  std::vector<float> residual(n);
  for (std::uint64_t t = 0; t < 1000; ++t) {
    const auto g = make_input<float>(Input::normal, n, seed() + t);
    residual = row.run(g, residual, Feedback::carry).residual;
    // Karimireddy et al. 2019: |e| <= 2 sqrt(1 - delta) / delta |g|, delta = 2 / pi for a normal input.
    ASSERT_LT(std::sqrt(squares(residual) / squares(g)), 1.9) << "after " << t << " calls";
  }
}

}  // namespace
}  // namespace mq::test
