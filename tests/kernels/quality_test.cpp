// How good the lossy codecs are: against the optimum for their format and against theory, not only against
// themselves. NMSE is |v - decoded|^2 / |v|^2.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

// The greatest magnitude of each block.
template <class T>
std::vector<double> block_magnitudes(const std::vector<T>& x, std::size_t block) {
  std::vector<double> most((x.size() + block - 1) / block);
  for (std::size_t i = 0; i < x.size(); ++i)
    most[i / block] = std::max(most[i / block], std::abs(static_cast<double>(x[i])));
  return most;
}

template <class Row>
bool is_random(const Row& row) {
  return row.codec->unbiased(row.params) && !row.codec->lossless;
}

// The sum over calls of decoded - x, for each element.
template <class Row, class T = typename Row::Type>
std::vector<double> sum_of_errors(const Row& row, const std::vector<T>& x, int calls) {
  std::vector<double> sum(x.size());
  for (int call = 0; call < calls; ++call) {
    const kernels::Site site{.call = static_cast<std::uint64_t>(call) * 0x9e3779b97f4a7c15u, .sum = 7};
    const auto decoded = row.run(x, {}, Feedback::none, 0, site).decoded;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum[i] += static_cast<double>(decoded[i]) - static_cast<double>(x[i]);
  }
  return sum;
}

// An error between two neighbours that are `b` apart has at most the standard deviation b / 2.
TEST(Quality, unbiased_codecs_are_right_on_average_within_five_standard_errors) {
  constexpr int kCalls = 400;
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (!is_random(row) || row.isa != kernels::best_isa()) return;  // the others write the same bytes
    for (const Input input : {Input::normal, Input::one_sided, Input::spikes}) {
      const auto x = make_input<T>(input, 300, seed());
      const auto sum = sum_of_errors(row, x, kCalls);
      const double most = block_magnitudes(x, x.size())[0];
      const double limit = 5 * row.codec->error_bound(row.params) * most / 2;
      double all = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_LE(std::abs(sum[i]), limit * std::sqrt(kCalls))
            << row.describe(300, name(input)) << " at " << i;
        all += sum[i];
      }
      ASSERT_LE(std::abs(all), limit * std::sqrt(kCalls * 300.0)) << row.describe(300, name(input));
    }
  });
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST(Quality, noise_is_a_function_of_the_site_and_other_sites_have_other_noise) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (!is_random(row)) return;
    const std::size_t n = 2 * row.block();
    const auto x = make_input<T>(Input::uniform, n, seed());
    const auto errors = [&](const kernels::Site& site) {
      const auto decoded = row.run(x, {}, Feedback::none, 0, site).decoded;
      std::vector<double> error(n);
      for (std::size_t i = 0; i < n; ++i)
        error[i] = static_cast<double>(decoded[i]) - static_cast<double>(x[i]);
      return error;
    };
    const auto first = errors({.call = 1, .sum = 2});
    EXPECT_EQ(first, errors({.call = 1, .sum = 2, .ranks = 3})) << row.describe(n, "");
    for (const kernels::Site& other :
         {kernels::Site{.call = 2, .sum = 2}, kernels::Site{.call = 1, .sum = 3}, kernels::Site{.call = 1},
          kernels::Site{.call = 1, .sum = 2, .index = n},
          kernels::Site{.call = 1, .sum = 2, .index = 1ull << 40}})
      EXPECT_LE(std::abs(correlation(first, errors(other))), 6 / std::sqrt(static_cast<double>(n)))
          << row.describe(n, "") << other.call << " " << other.sum << " " << other.index;
  });
}

TEST(Quality, every_codec_returns_at_most_the_energy_error_of_sending_nothing) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (is_random(row)) return;  // right on average, and for that the error may exceed the vector
    for (const Input input : {Input::normal, Input::laplace, Input::uniform, Input::constant,
                              Input::one_sided, Input::spikes, Input::mixed_scales}) {
      const auto x = make_input<T>(input, 5000, seed());
      if (row.codec->name == "f16" && input == Input::mixed_scales)
        continue;  // millions are out of its range
      const auto decoded = row.run(x, {}, Feedback::none).decoded;
      const double error = squared_error(x, decoded);
      // Nothing is sent where all are below tau, little of a small tau, and nothing below an absolute error.
      if (row.codec->name == "threshold" || row.codec->absolute_bound(row.params, 1) > 0)
        ASSERT_LE(error, squares(x)) << row.describe(5000, name(input));
      else
        ASSERT_LT(error, squares(x)) << row.describe(5000, name(input));
    }
  });
}

TEST(Quality, every_codec_treats_signs_alike) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const double bound = row.codec->symmetric(row.params) ? 0 : 2 * row.codec->error_bound(row.params);
    ASSERT_TRUE(row.codec->symmetric(row.params) || bound > 0) << "a codec says how far signs may matter";
    for (const Input input : {Input::normal, Input::one_sided, Input::spikes}) {
      auto x = make_input<T>(input, 3000, seed());
      const auto plus = row.run(x, {}, Feedback::none).decoded;
      for (T& v : x) v = -v;
      const auto minus = row.run(x, {}, Feedback::none).decoded;
      const auto most = block_magnitudes(x, row.block());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::abs(static_cast<double>(plus[i] + minus[i])), bound * most[i / row.block()])
            << row.describe(3000, name(input)) << " at " << i;
    }
  });
}

TEST(Quality, errors_are_within_the_bound_of_the_row) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const double bound = row.codec->error_bound(row.params);
    if (bound == 0) return;
    for (const Input input :
         {Input::normal, Input::laplace, Input::uniform, Input::signs, Input::constant, Input::zeros,
          Input::one_sided, Input::spikes, Input::tiny, Input::mixed_scales}) {
      const auto x = make_input<T>(input, 5000, seed());
      const auto decoded = row.run(x, {}, Feedback::none).decoded;
      const auto most = block_magnitudes(x, row.block());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::abs(static_cast<double>(decoded[i]) - static_cast<double>(x[i])),
                  bound * most[i / row.block()])
            << row.describe(5000, name(input)) << " at " << i;
    }
  });
}

TEST(Quality, errors_are_within_the_absolute_bound_of_the_row_whatever_the_vector) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const int ranks : {1, 2, 3, 7, 1000}) {
      const double bound = row.codec->absolute_bound(row.params, ranks);
      if (bound == 0) return;
      for (const Input input : kInputs) {
        const auto x = make_input<T>(input, 5000, seed());
        const auto decoded = row.run(x, {}, Feedback::none, 0, {.ranks = ranks}).decoded;
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_LE(std::abs(static_cast<double>(decoded[i]) - static_cast<double>(x[i])), bound)
              << row.describe(5000, name(input)) << " at " << i << " of " << ranks << " ranks";
      }
    }
  });
}

// The error of each element is at most `relative`, or half the `unit` of subnormal codes. Doubles are rounded
// twice.
template <class Row>
void expect_half_a_unit(const Row& row, Input input, double relative, double unit) {
  using T = typename Row::Type;
  const auto x = make_input<T>(input, 4000, seed());
  const auto y = row.run(x, {}, Feedback::none).decoded;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), error = std::abs(v - static_cast<double>(y[i]));
    ASSERT_LE(error, std::max(std::abs(v) * relative, unit / 2) * (sizeof(T) == 4 ? 1 : 1.00001))
        << row.describe(x.size(), name(input)) << v;
  }
}

TEST(Half, bf16_is_exact_to_eight_bits) {
  for_each_row_of("bf16", [](const auto& row) {
    for (const Input input :
         {Input::normal, Input::laplace, Input::uniform, Input::mixed_scales, Input::tiny})
      expect_half_a_unit(row, input, 0x1p-8, 0);
  });
}

TEST(Half, f16_is_exact_to_eleven_bits_and_two_to_the_minus_24) {
  for_each_row_of("f16", [](const auto& row) {
    for (const Input input : {Input::normal, Input::laplace, Input::uniform, Input::spikes, Input::tiny})
      expect_half_a_unit(row, input, 0x1p-11, 0x1p-24);
  });
}

TEST(Half, f16_is_infinite_from_65520_on_and_leaves_no_residual) {
  for_each_row_of("f16", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::vector<T> x{T{65519}, T{65520}, T{-65519}, T{-65520}, T{1e30F}};
    const Coded<T> got = row.run(x, std::vector<T>(x.size()), Feedback::carry);
    constexpr T kInf = std::numeric_limits<T>::infinity();
    EXPECT_EQ(got.decoded, (std::vector<T>{65504, kInf, -65504, -kInf, kInf})) << row.describe(x.size(), "");
    EXPECT_EQ(got.residual, (std::vector<T>{15, 0, -15, 0, 0})) << row.describe(x.size(), "");
    EXPECT_EQ(got.nonfinite, 0u) << "counts what went in";
  });
}

TEST(Half, bf16_rounds_to_nearest_even_on_every_tie_and_beside_it) {
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

}  // namespace
}  // namespace mq::test
