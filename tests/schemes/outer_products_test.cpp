// The product of factors: the same bits as the plainest loop, and when it pays to send factors.

#include "mpi_quant/schemes/outer_products.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

template <class T>
void expect_plain_loop(std::size_t m, std::size_t n, std::size_t k, bool hostile) {
  std::vector<T> u = make_input<T>(Input::mixed_scales, m * k, seed()),
                 v = make_input<T>(Input::normal, n * k, seed() + 1);
  if (hostile && k > 0) {
    if (!u.empty()) u[u.size() / 2] = std::numeric_limits<T>::infinity();
    if (!u.empty()) u[0] = std::numeric_limits<T>::denorm_min();
    if (!v.empty()) v[v.size() / 3] = std::numeric_limits<T>::quiet_NaN();
    if (!v.empty()) v.back() = 0;
  }
  std::vector<T> expected(m * n), got(m * n, std::numeric_limits<T>::quiet_NaN());
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = 0; i < m; ++i) {
      T sum = 0;
      for (std::size_t c = 0; c < k; ++c) {
        const T product = u[c * m + i] * v[c * n + j];
        sum += product;
      }
      expected[j * m + i] = sum;
    }
  sum_outer_products(
      m, n, k,
      [&](std::size_t c) {
        return FactorColumn<T>{u.data() + c * m, v.data() + c * n};
      },
      got.data());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i])
        << m << " x " << n << ", " << k << " columns, at " << i;
}

TEST(OuterProducts, are_the_bits_of_the_plainest_loop) {
  for (const std::size_t m : {0, 1, 7, 511, 512, 513, 1300})
    for (const std::size_t n : {0, 1, 5, 40})
      for (const std::size_t k : {0, 1, 2, 33})
        for (const bool hostile : {false, true}) {
          expect_plain_loop<float>(m, n, k, hostile);
          expect_plain_loop<double>(m, n, k, hostile);
        }
}

TEST(OuterProducts, factors_are_sent_while_they_are_fewer_elements_than_a_dense_sum_moves) {
  for (std::size_t m = 0; m < 20; ++m)
    for (std::size_t n = 0; n < 20; ++n)
      for (std::size_t k = 0; k < 50; ++k)
        ASSERT_EQ(factors_are_fewer(m, n, k), k * (m + n) < 2 * m * n) << m << " x " << n << ", " << k;
}

TEST(OuterProducts, the_choice_does_not_overflow) {
  constexpr std::size_t kMost = std::size_t{1} << 58, kRoot = std::size_t{1} << 29;
  EXPECT_TRUE(factors_are_fewer(kRoot, kRoot, kRoot - 1));
  EXPECT_FALSE(factors_are_fewer(kRoot, kRoot, kRoot));
  EXPECT_FALSE(factors_are_fewer(kRoot, kRoot, kMost));
  EXPECT_TRUE(factors_are_fewer(kMost, 1, 1));  // 2^58 + 1 elements against 2^59
  EXPECT_FALSE(factors_are_fewer(kMost, 1, 2));
}

}  // namespace
}  // namespace mq::test
