// topk: which elements are sent, against nth_element; that their values and the residual are exact to the
// bit; what happens to NaN and Inf; and how few elements the faster searches may miss.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

enum Select { kSelectExact, kSelectApprox, kSelectSample };

std::size_t share(std::size_t n, double k) {
  return std::min(n, static_cast<std::size_t>(std::ceil(static_cast<double>(n) * k * (1 - 0x1p-50))));
}

// The k largest magnitudes of [begin, end), ties by lowest position, no zeros; and all that is not finite.
template <class T>
void mark_largest(const std::vector<T>& v, std::size_t begin, std::size_t end, std::size_t k,
                  std::vector<bool>& sent) {
  std::vector<T> magnitudes;
  for (std::size_t i = begin; i < end; ++i)
    if (std::isfinite(v[i]) && v[i] != 0) magnitudes.push_back(std::abs(v[i]));
  k = std::min(k, magnitudes.size());
  T kth = 0;
  if (k > 0) {
    const auto at = magnitudes.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(magnitudes.begin(), at, magnitudes.end(), std::greater<T>());
    kth = *at;
  }
  const auto above = std::count_if(magnitudes.begin(), magnitudes.end(), [&](T m) { return m > kth; });
  std::size_t ties = k - static_cast<std::size_t>(above);
  for (std::size_t i = begin; i < end; ++i) {
    sent[i] = !std::isfinite(v[i]) || (k > 0 && std::abs(v[i]) > kth);
    if (k > 0 && std::abs(v[i]) == kth && ties > 0) {
      sent[i] = true;
      --ties;
    }
  }
}

template <class T>
std::vector<bool> expected_entries(const std::vector<T>& v, std::size_t block, double k) {
  std::vector<bool> sent(v.size());
  for (std::size_t begin = 0; begin < v.size(); begin += block) {
    const std::size_t end = std::min(begin + block, v.size());
    mark_largest(v, begin, end, share(end - begin, k), sent);
  }
  return sent;
}

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// What is sent decodes to itself and leaves +0; what is not decodes to +0 and stays; to the bit.
template <class T>
void expect_exact(const Row<T>& row, const std::vector<T>& x, double k, std::string_view what) {
  const std::string where = row.describe(x.size(), what);
  std::vector<T> before(x.size()), v = x;
  for (std::size_t i = 0; i < x.size(); i += 3) before[i] = x[x.size() - 1 - i] / 2;
  for (std::size_t i = 0; i < x.size(); ++i) v[i] = x[i] + before[i];
  const Coded<T> carried = row.run(x, before, Feedback::carry), plain = row.run(v, before, Feedback::none);
  const Coded<T> deposited = row.run(v, before, Feedback::deposit);
  ASSERT_EQ(carried.wire, plain.wire) << where;
  ASSERT_EQ(carried.wire, deposited.wire) << where;
  const std::vector<bool> sent = expected_entries(v, row.block(), k);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(same(carried.decoded[i], sent[i] ? v[i] : T{0})) << where << "at " << i << " of " << v[i];
    ASSERT_TRUE(same(carried.residual[i], sent[i] ? T{0} : v[i])) << where << "at " << i;
    ASSERT_EQ(deposited.residual[i], sent[i] ? before[i] : before[i] + v[i]) << where << "at " << i;
  }
}

TEST(TopK, sends_the_elements_of_nth_element_and_ties_by_lowest_position_exactly) {
  for (const double k : {1e-5, 0.003, 0.01, 0.07, 0.2, 0.3, 0.9, 0.98, 1.0})
    for (const double block : {64.0, 1024.0})
      for_each_isa("topk", {{"k", k}, {"block", block}}, [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        const std::size_t b = row.block();
        for (const std::size_t n :
             {std::size_t{0}, std::size_t{1}, std::size_t{33}, b - 1, b, b + 1, 3 * b + 5}) {
          for (const Input input : kInputs) {
            auto x = make_input<T>(input, n, seed());
            if (input == Input::huge)
              for (T& v : x) v /= 2;  // sums stay finite
            expect_exact(row, x, k, name(input));
          }
          expect_exact(row, stepped<T>(n, seed()), k, "stepped");
          expect_exact(row, jumping<T>(n, 64, seed()), k, "jumping");
          std::vector<T> few(n);
          for (std::size_t i = 5; i < n; i += 97) few[i] = static_cast<T>(i);
          expect_exact(row, few, k, "few");
        }
      });
}

TEST(TopK, long_blocks_send_the_same_whatever_the_block_before_was) {
  for_each_isa("topk", {}, [&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 4 * row.block() + 999;
    for (const auto& x : {make_input<T>(Input::laplace, n, seed()), stepped<T>(n, seed()),
                          jumping<T>(n, row.block(), seed()), std::vector<T>(n, T{-3})})
      expect_exact(row, x, 0.01, "long");
  });
}

TEST(TopK, a_share_that_is_no_binary_number_is_not_rounded_up) {
  const auto sent = [](double k, std::size_t n) {
    const Row<float> row = fastest("topk", {{"k", k}});
    return entries_of(row.run(std::vector<float>(n, 2.0F), {}, Feedback::none).decoded);
  };
  EXPECT_EQ(sent(0.07, 100), 7u);
  EXPECT_EQ(sent(0.07, 101), 8u);
  EXPECT_EQ(sent(0.01, 100), 1u);
  EXPECT_EQ(sent(0.01, 65536), 656u);
  EXPECT_EQ(sent(1e-5, 65536), 1u);
  EXPECT_EQ(sent(1, 77), 77u);
}

TEST(TopK, the_error_is_that_of_the_best_sparse_approximation_of_each_block) {
  for (const double k : {0.003, 0.01, 0.1, 0.5})
    for (const Input input : {Input::normal, Input::laplace, Input::spikes, Input::mixed_scales}) {
      const Row<double> row{kernels::find_codec("topk"), fastest("topk", {{"k", k}, {"block", 4096}}).params,
                            kernels::best_isa()};
      const std::size_t b = row.block(), n = 5 * b;
      const auto x = make_input<double>(input, n, seed());
      double least = 0;
      for (std::size_t begin = 0; begin < n; begin += b) {
        std::vector<double> energy;
        for (std::size_t i = begin; i < begin + b; ++i) energy.push_back(x[i] * x[i]);
        std::sort(energy.begin(), energy.end());
        for (std::size_t i = 0; i < b - share(b, k); ++i) least += energy[i];
      }
      EXPECT_NEAR(squared_error(x, row.run(x, {}, Feedback::none).decoded), least, 1e-12 * least)
          << row.describe(n, name(input));
    }
}

TEST(TopK, every_search_sends_about_the_share_and_nothing_below_what_it_keeps) {
  for (const Select select : {kSelectApprox, kSelectSample})
    for (const double k : {0.003, 0.01, 0.2, 0.6})
      for (const double block : {64.0, 1024.0, 16384.0})
        for_each_isa("topk", {{"k", k}, {"block", block}, {"select", select}}, [&](const auto& row) {
          using T = typename std::decay_t<decltype(row)>::Type;
          const std::size_t n = 2 * row.block() + 77;
          const auto check = [&](const std::vector<T>& x, std::string_view what) {
            const std::vector<T> decoded = row.run(x, {}, Feedback::none).decoded;
            for (std::size_t begin = 0; begin < n; begin += row.block()) {
              const std::size_t end = std::min(begin + row.block(), n), kept = share(end - begin, k);
              std::size_t count = 0, available = 0;
              T least = std::numeric_limits<T>::max(), most = 0;
              for (std::size_t i = begin; i < end; ++i) {
                count += decoded[i] != 0, available += x[i] != 0;
                (decoded[i] != 0 ? least : most) =
                    decoded[i] != 0 ? std::min(least, std::abs(x[i])) : std::max(most, std::abs(x[i]));
              }
              ASSERT_LE(count, 2 * kept) << row.describe(n, what);
              ASSERT_GE(2 * count, std::min(kept, available)) << row.describe(n, what);
              ASSERT_GE(least, most) << row.describe(n, what);
            }
          };
          for (const Input input : kInputs) check(make_input<T>(input, n, seed()), name(input));
          check(stepped<T>(n, seed()), "stepped");
          check(jumping<T>(n, 64, seed()), "jumping");
        });
}

TEST(TopK, a_histogram_misses_few_of_a_smooth_distribution) {
  for (const double k : {0.001, 0.01, 0.1})
    for (const Input input : {Input::normal, Input::laplace}) {
      const Row<float> row = fastest("topk", {{"k", k}, {"select", kSelectApprox}});
      const auto x = make_input<float>(input, 1 << 20, seed());
      const auto sent = static_cast<double>(entries_of(row.run(x, {}, Feedback::none).decoded));
      const double wanted = 16 * static_cast<double>(share(65536, k));
      EXPECT_LE(sent, wanted) << row.describe(x.size(), name(input));
      EXPECT_GE(sent, 0.94 * wanted) << row.describe(x.size(), name(input));
    }
}

TEST(TopK, a_guess_changes_no_result_of_the_faster_searches) {
  for (const Select select : {kSelectApprox, kSelectSample})
    for_each_isa("topk", {{"block", 4096}, {"select", select}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t b = row.block(), blocks = 20;
      std::vector<T> x = jumping<T>(blocks * b, b, seed());
      plant_nonfinite(x, seed());
      std::fill(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(5 * b), T{1});
      std::vector<std::byte> pieces;
      for (std::size_t i = 0; i < blocks; ++i) {
        const auto from = x.begin() + static_cast<std::ptrdiff_t>(i * b);
        const Coded<T> got = row.run({from, from + static_cast<std::ptrdiff_t>(b)}, {}, Feedback::none);
        pieces.insert(pieces.end(), got.wire.begin(), got.wire.end());
      }
      ASSERT_EQ(row.run(x, {}, Feedback::none).wire, pieces) << row.describe(x.size(), "");
    });
}

TEST(TopK, elements_that_are_not_finite_are_sent_besides_and_spoil_no_other) {
  for (const double k : {0.003, 0.1, 0.5, 1.0})
    for (const double flood : {0.001, 0.02, 0.1, 0.3, 0.7, 1.0})
      for_each_isa("topk", {{"k", k}, {"block", 1024}}, [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        const std::size_t n = 1500;
        auto x = make_input<T>(Input::laplace, n, seed());
        std::vector<T> without = x;
        std::mt19937_64 random(seed());
        constexpr T kInf = std::numeric_limits<T>::infinity();
        const T specials[]{std::numeric_limits<T>::quiet_NaN(), kInf, -kInf};
        std::uint64_t planted = 0;
        for (std::size_t i = 0; i < n; ++i)
          if (static_cast<double>(random() % 1000) < 1000 * flood) {
            x[i] = specials[random() % 3];
            without[i] = 0;
            ++planted;
          }
        const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
        const Coded<T> expected = row.run(without, std::vector<T>(n), Feedback::carry);
        ASSERT_EQ(got.nonfinite, planted);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(std::isfinite(got.decoded[i]), std::isfinite(x[i])) << row.describe(n, "") << i;
          if (std::isfinite(x[i])) {
            ASSERT_EQ(got.decoded[i], expected.decoded[i]) << row.describe(n, "") << i;
          } else if (flood <= 0.001 || k == 1.0) {
            ASSERT_TRUE(same(got.decoded[i], x[i])) << "few, or all, are sent as they are";
          }
          ASSERT_TRUE(same(got.residual[i], expected.residual[i])) << row.describe(n, "") << i;
        }
      });
}

TEST(TopK, a_flood_of_one_infinity_keeps_its_sign) {
  for_each_isa("topk", {}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kInf = std::numeric_limits<T>::infinity();
    for (const std::size_t n : {1, 5, 1000, 70000})
      for (const T special : {kInf, -kInf, std::numeric_limits<T>::quiet_NaN()}) {
        const Coded<T> got = row.run(std::vector<T>(n, special), std::vector<T>(n, T{3}), Feedback::carry);
        EXPECT_TRUE(same_bits(got.decoded, std::vector<T>(n, special))) << row.describe(n, "");
        EXPECT_TRUE(same_bits(got.residual, std::vector<T>(n))) << row.describe(n, "");
        EXPECT_EQ(got.nonfinite, n);
      }
  });
}

TEST(TopK, feedback_makes_the_mean_of_many_calls_right_and_loses_nothing) {
  expect_mean_of_calls_right(fastest("topk", {{"k", 0.05}, {"block", 1024}}), Input::normal, 400);
  // On a grid on which every sum is exact: inputs = what was decoded + what waits.
  for_each_isa("topk", {{"block", 256}, {"k", 0.02}}, [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 777;
    std::vector<T> residual(n), in(n), out(n);
    for (std::uint64_t t = 0; t < 60; ++t) {
      auto g = make_input<T>(Input::normal, n, seed() + t);
      for (T& v : g) v = std::round(v * 1024) / 4096;
      const Coded<T> got = row.run(g, residual, Feedback::carry);
      residual = got.residual;
      for (std::size_t i = 0; i < n; ++i) in[i] += g[i], out[i] += got.decoded[i];
    }
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(in[i], out[i] + residual[i]);
  });
}

}  // namespace
}  // namespace mq::test
