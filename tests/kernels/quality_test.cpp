// How good the lossy codecs are: against the optimum for their format and against theory, not only against
// themselves. NMSE is |v - decoded|^2 / |v|^2.

#include <gtest/gtest.h>

#include <algorithm>
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
    const kernels::NoiseIndex noise{.call = static_cast<std::uint64_t>(call) * 0x9e3779b97f4a7c15u, .sum = 7};
    const auto decoded = row.run(x, {}, Feedback::none, 0, noise).decoded;
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
    const auto errors = [&](const kernels::NoiseIndex& noise) {
      const auto decoded = row.run(x, {}, Feedback::none, 0, noise).decoded;
      std::vector<double> error(n);
      for (std::size_t i = 0; i < n; ++i)
        error[i] = static_cast<double>(decoded[i]) - static_cast<double>(x[i]);
      return error;
    };
    const auto first = errors({.call = 1, .sum = 2});
    EXPECT_EQ(first, errors({.call = 1, .sum = 2, .ranks = 3})) << row.describe(n, "");
    for (const kernels::NoiseIndex& other :
         {kernels::NoiseIndex{.call = 2, .sum = 2}, kernels::NoiseIndex{.call = 1, .sum = 3},
          kernels::NoiseIndex{.call = 1}, kernels::NoiseIndex{.call = 1, .sum = 2, .index = n},
          kernels::NoiseIndex{.call = 1, .sum = 2, .index = 1ull << 40}})
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
      if (row.run(x, {}, Feedback::none).overflows > 0) continue;  // f16: millions are out of its range
      const auto decoded = row.run(x, {}, Feedback::none).decoded;
      const double error = squared_error(x, decoded);
      // Nothing is sent where all are below tau or a given range, little of a small tau, and nothing below an
      // absolute error.
      if (row.codec->name == "threshold" || row.codec->name == "rangefloat" ||
          row.codec->absolute_bound(row.params, 1) > 0)
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

}  // namespace
}  // namespace mq::test
