// adaptive: which elements are sent, against a plain sort; what they decode to, against means in long double;
// and what error feedback makes of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

std::size_t share(std::size_t n, double pi) {
  return n == 0 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(n) / pi + 0.5));
}

// The k largest magnitudes of [begin, end) among those wanted, ties by lowest position; no zeros.
template <class T, class Wanted>
void mark_largest(const std::vector<T>& v, std::size_t begin, std::size_t end, std::size_t k, Wanted wanted,
                  std::vector<bool>& sent) {
  std::vector<std::size_t> order;
  for (std::size_t i = begin; i < end; ++i)
    if (v[i] != 0 && wanted(v[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(v[a]) > std::abs(v[b]); });
  for (std::size_t i = 0; i < std::min(k, order.size()); ++i) sent[order[i]] = true;
}

template <class T>
std::vector<bool> expected_entries(const std::vector<T>& v, std::size_t block, double pi, bool separate) {
  std::vector<bool> sent(v.size());
  for (std::size_t begin = 0; begin < v.size(); begin += block) {
    const std::size_t end = std::min(begin + block, v.size());
    if (!separate) {
      mark_largest(
          v, begin, end, share(end - begin, pi), [](T) { return true; }, sent);
      continue;
    }
    for (const bool above : {false, true}) {
      const auto wanted = [&](T x) { return above ? x > 0 : x < 0; };
      std::size_t side = 0;
      for (std::size_t i = begin; i < end; ++i) side += wanted(v[i]);
      mark_largest(v, begin, end, share(side, pi), wanted, sent);
    }
  }
  return sent;
}

// Every entry of [begin, end) is the mean of the entries of its sign, to the rounding of sums in double of an
// eighth of them each.
template <class T>
void expect_means(const std::vector<T>& v, const std::vector<T>& decoded, std::size_t begin, std::size_t end,
                  const std::string& where) {
  long double sum[2] = {};
  std::size_t count[2] = {};
  for (std::size_t i = begin; i < end; ++i) {
    if (decoded[i] == 0) continue;
    sum[decoded[i] > 0] += static_cast<long double>(v[i]);
    ++count[decoded[i] > 0];
  }
  for (std::size_t i = begin; i < end; ++i) {
    if (decoded[i] == 0) continue;
    const int side = decoded[i] > 0;
    const auto mean = static_cast<double>(sum[side] / static_cast<long double>(count[side]));
    const double rounding = std::numeric_limits<double>::epsilon() * static_cast<double>(count[side]) / 16 +
                            static_cast<double>(std::numeric_limits<T>::epsilon());
    ASSERT_NEAR(static_cast<double>(decoded[i]), mean,
                std::abs(mean) * rounding + static_cast<double>(std::numeric_limits<T>::denorm_min()))
        << where << " at " << i;
  }
}

template <class T>
void expect_exact(const Row<T>& row, const std::vector<T>& x, double pi, bool separate,
                  std::string_view what) {
  const std::string where = row.describe(x.size(), what);
  const std::vector<T> decoded = row.run(x, {}, Feedback::none).decoded;
  const std::vector<bool> expected = expected_entries(x, row.block(), pi, separate);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(decoded[i] != 0, expected[i]) << where << "at " << i << " of " << x[i];
    if (decoded[i] != 0) {
      ASSERT_EQ(decoded[i] > 0, x[i] > 0) << where << "at " << i;
    }
  }
  for (std::size_t begin = 0; begin < x.size(); begin += row.block())
    expect_means(x, decoded, begin, std::min(begin + row.block(), x.size()), where);
}

TEST(Adaptive, exact_search_sends_what_a_sort_would_ties_by_lowest_position) {
  for (const double pi : {1.0, 1.5, 3.0, 4.5, 8.0, 32.0, 1000.0})
    for (const double block : {64.0, 4096.0})
      for (const double separate : {0.0, 1.0})
        for_each_isa("adaptive", {{"pi", pi}, {"block", block}, {"signs", separate}}, [&](const auto& row) {
          using T = typename std::decay_t<decltype(row)>::Type;
          const std::size_t b = row.block();
          for (const std::size_t n : {std::size_t{1}, std::size_t{33}, b - 1, 3 * b + 5}) {
            for (const Input input : kInputs)
              expect_exact(row, make_input<T>(input, n, seed()), pi, separate == 1, name(input));
            expect_exact(row, stepped<T>(n, seed()), pi, separate == 1, "stepped");
            expect_exact(row, jumping<T>(n, 64, seed()), pi, separate == 1, "jumping");
          }
        });
}

TEST(Adaptive, the_guess_from_the_block_before_changes_no_result) {
  for (const Search search : {kExact, kApprox, kDryden})
    for_each_isa("adaptive", {{"block", 4096}, {"search", search}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t b = row.block(), blocks = 20;
      std::vector<T> x = jumping<T>(blocks * b, b, seed());
      plant_nonfinite(x, seed());
      std::fill(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(5 * b), T{1});
      const Coded<T> whole = row.run(x, std::vector<T>(x.size()), Feedback::carry);
      std::vector<std::byte> pieces;
      for (std::size_t i = 0; i < blocks; ++i) {
        const auto from = x.begin() + static_cast<std::ptrdiff_t>(i * b);
        const std::vector<T> piece(from, from + static_cast<std::ptrdiff_t>(b));
        const Coded<T> got = row.run(piece, std::vector<T>(b), Feedback::carry);
        pieces.insert(pieces.end(), got.wire.begin(), got.wire.end());
      }
      ASSERT_EQ(whole.wire, pieces) << row.describe(x.size(), "");
    });
}

// Entries of each block against the share of its elements, no more than there are to send.
template <class T>
void expect_counts(const Row<T>& row, const std::vector<T>& x, double pi, double least, double most,
                   std::string_view what) {
  const std::vector<T> decoded = row.run(x, {}, Feedback::none).decoded;
  for (std::size_t begin = 0; begin < x.size(); begin += row.block()) {
    const std::size_t end = std::min(begin + row.block(), x.size());
    std::size_t count = 0, available = 0;
    for (std::size_t i = begin; i < end; ++i) count += decoded[i] != 0, available += x[i] != 0;
    const auto k = static_cast<double>(share(end - begin, pi));
    ASSERT_LE(static_cast<double>(count), most * k) << row.describe(x.size(), what);
    ASSERT_GE(static_cast<double>(count), std::min(least * k, static_cast<double>(available)))
        << row.describe(x.size(), what);
  }
}

TEST(Adaptive, every_search_sends_about_the_share_whatever_the_input) {
  struct Bound {
    Search search;
    double least, most;
  };
  // dryden2016 takes the second largest of about 64 samples of a sign: anything may come of that, but not
  // nothing, and no more than its cap.
  for (const Bound& bound : {Bound{kExact, 1, 1}, Bound{kApprox, 0.5, 2}, Bound{kDryden, 0, 4}})
    for (const double pi : {1.0, 3.0, 32.0})
      for (const double block : {64.0, 1024.0, 16384.0})
        for_each_isa(
            "adaptive", {{"pi", pi}, {"block", block}, {"search", bound.search}}, [&](const auto& row) {
              using T = typename std::decay_t<decltype(row)>::Type;
              const std::size_t n = row.block() + 77;
              for (const Input input : kInputs)
                expect_counts(row, make_input<T>(input, n, seed()), pi, bound.least, bound.most, name(input));
              expect_counts(row, stepped<T>(n, seed()), pi, bound.least, bound.most, "stepped");
              std::vector<T> sparse(n);
              for (std::size_t i = 5; i < n; i += 97) sparse[i] = static_cast<T>(i);
              expect_counts(row, sparse, pi, bound.least, bound.most, "sparse");
            });
}

TEST(Adaptive, dryden2016_sends_its_share_on_average) {
  const Row<float> row = fastest("adaptive", {{"search", kDryden}, {"block", 4096}});
  for (const Input input : {Input::normal, Input::laplace, Input::uniform}) {
    const auto x = make_input<float>(input, 256 * 4096, seed());
    const auto sent = static_cast<double>(entries_of(row.run(x, {}, Feedback::none).decoded));
    // Above the j-th largest of m samples are j / (m + 1): of 64, 2 / 65 with a large spread and the cap.
    EXPECT_NEAR(sent / static_cast<double>(x.size()), 2.0 / 65, 0.2 / 32) << name(input);
  }
}

TEST(Adaptive, what_is_sent_has_nearly_the_energy_of_the_best_choice) {
  struct Case {
    Search search;
    double of_best;
  };
  // Best: the same number of elements, the largest, as side means. The published sample is a different number
  // in every block.
  for (const Case& c : {Case{kExact, 1}, Case{kApprox, 0.99}, Case{kDryden, 0.85}})
    for (const Input input : {Input::normal, Input::laplace, Input::mixed_scales}) {
      const Row<float> row = fastest("adaptive", {{"search", c.search}});
      const auto x = make_input<float>(input, 1 << 18, seed());
      const auto decoded = row.run(x, {}, Feedback::none).decoded;
      const double pi = static_cast<double>(x.size()) / static_cast<double>(entries_of(decoded));
      const Row<float> best = fastest("adaptive", {{"pi", pi}});
      const auto most = squares(best.run(x, {}, Feedback::none).decoded);
      EXPECT_GE(squares(decoded), c.of_best * most * 0.9999) << row.describe(x.size(), name(input));
    }
}

TEST(Adaptive, captured_energy_is_the_theory_of_the_distribution) {
  const Row<float> row = fastest("adaptive", {});
  for (const auto& [input, captured] : {std::pair{Input::normal, 0.1969}, std::pair{Input::laplace, 0.312}}) {
    const auto x = make_input<float>(input, 1 << 20, seed());
    EXPECT_NEAR(squares(row.run(x, {}, Feedback::none).decoded) / squares(x), captured, 0.01 * captured)
        << name(input);
  }
}

TEST(Adaptive, error_energy_is_what_the_means_leave_and_other_values_leave_more) {
  for (const Search search : {kExact, kApprox, kDryden})
    for_each_isa("adaptive", {{"search", search}, {"block", 1024}}, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      for (const Input input : {Input::normal, Input::laplace, Input::one_sided}) {
        const auto x = make_input<T>(input, 4000, seed());
        auto y = row.run(x, {}, Feedback::none).decoded;
        const double error = squared_error(x, y);
        ASSERT_NEAR(error, squares(x) - squares(y), 1e-5 * squares(x)) << row.describe(x.size(), name(input));
        for (const T factor : {T{0.999}, T{1.001}}) {
          auto other = y;
          for (T& v : other) v *= factor;
          ASSERT_GT(squared_error(x, other), error) << row.describe(x.size(), name(input));
        }
      }
    });
}

TEST(Adaptive, residuals_of_the_entries_of_a_side_sum_to_zero) {
  for_each_isa("adaptive", {{"pi", 8}, {"block", 1024}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const auto x = make_input<T>(Input::laplace, 1024, seed());
    const Coded<T> got = row.run(x, std::vector<T>(1024), Feedback::carry);
    double sum[2] = {}, magnitude[2] = {};
    for (std::size_t i = 0; i < x.size(); ++i)
      if (got.decoded[i] != 0) {
        sum[got.decoded[i] > 0] += static_cast<double>(got.residual[i]);
        magnitude[got.decoded[i] > 0] += std::abs(static_cast<double>(x[i]));
      }
    for (const int side : {0, 1})
      ASSERT_LE(std::abs(sum[side]),
                magnitude[side] * static_cast<double>(std::numeric_limits<T>::epsilon()));
  });
}

TEST(Adaptive, plus_minus_one_value_is_exact_at_pi_1_and_leaves_no_residual) {
  for (const Search search : {kExact, kApprox, kDryden})
    for_each_isa("adaptive", {{"pi", 1}, {"search", search}}, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      for (const Input input : {Input::signs, Input::zeros})
        for (const std::size_t n : {1, 1000, 20000}) {
          const auto x = make_input<T>(input, n, seed());
          const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(got.decoded[i], x[i]) << row.describe(n, name(input));
            ASSERT_EQ(got.residual[i], T{0}) << row.describe(n, name(input));
          }
        }
    });
}

TEST(Adaptive, means_of_the_greatest_values_stay_finite) {
  for_each_isa("adaptive", {{"pi", 1}, {"block", 65536}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kMax = std::numeric_limits<T>::max();
    for (const std::size_t n : {7, 16384, 65536}) {
      std::vector<T> x(n, kMax);
      for (std::size_t i = 0; i < n; i += 3) x[i] = -kMax;
      const std::vector<T> decoded = row.run(x, {}, Feedback::none).decoded;
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_TRUE(std::isfinite(decoded[i]) && std::abs(decoded[i] / x[i] - 1) < T{1e-6F})
            << row.describe(n, "");
      }
    }
  });
}

TEST(Adaptive, feedback_makes_the_mean_of_many_calls_right) {
  expect_mean_of_calls_right(fastest("adaptive", {{"block", 1024}}), Input::normal, 200);
}

TEST(Adaptive, residuals_of_independent_inputs_stay_below_the_theory_bound) {
  const Row<float> row = fastest("adaptive", {{"block", 4096}});
  const std::size_t n = 4096;
  std::vector<float> residual(n);
  double ratio = 0;
  for (std::uint64_t t = 0; t < 1000; ++t) {
    const auto g = make_input<float>(Input::normal, n, seed() + t);
    residual = row.run(g, residual, Feedback::carry).residual;
    ratio = std::sqrt(squares(residual) / squares(g));
    // Karimireddy et al. 2019: |e| <= 2 sqrt(1 - delta) / delta |g|, delta = 0.197 for a normal input.
    ASSERT_LT(ratio, 9.1) << "after " << t << " calls";
  }
  EXPECT_GT(ratio, 1.5) << "about 2.2 by simulation";
  EXPECT_LT(ratio, 3.0);
}

// Whether a block is sparse follows from its entries, however far below their bounds the list of candidates
// began, which the block before decides. Near a quarter of the elements, with sides of different scales.
TEST(Adaptive, sides_apart_near_a_quarter_encode_the_same_in_pieces) {
  for (const double pi : {3.9, 4.0, 4.1, 4.3})
    for_each_isa("adaptive", {{"pi", pi}, {"block", 64}, {"signs", 1}}, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      std::vector<T> x = make_input<T>(Input::laplace, 64 * 200, seed());
      for (std::size_t i = 0; i < x.size(); ++i)
        if (x[i] > 0) x[i] *= static_cast<T>(i / 64 % 3 == 0 ? 1 : 1.3);
      std::vector<std::byte> pieces;
      for (std::size_t begin = 0; begin < x.size(); begin += 64) {
        const std::vector<T> piece(x.begin() + static_cast<std::ptrdiff_t>(begin),
                                   x.begin() + static_cast<std::ptrdiff_t>(begin + 64));
        const auto got = row.run(piece, {}, Feedback::none);
        pieces.insert(pieces.end(), got.wire.begin(), got.wire.end());
      }
      ASSERT_EQ(row.run(x, {}, Feedback::none).wire, pieces) << row.describe(x.size(), "");
    });
}

}  // namespace
}  // namespace mq::test
