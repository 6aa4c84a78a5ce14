// The linear algebra of lowrank: the bits of its products, orthonormal columns, and what the last pass
// leaves.

#include "mpi_quant/schemes/low_rank.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/narrow_products.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

template <class T>
struct Matrix {
  Matrix(std::size_t rows, std::size_t columns, Input kind = Input::normal)
      : m(rows),
        n(columns),
        x(make_input<T>(kind, m * n, seed())),
        e(make_input<T>(kind, m * n, seed() + 1)) {}
  kernels::CarriedMatrix view() const { return {x.data(), e.data(), m, n}; }
  std::size_t m, n;
  std::vector<T> x, e;
};

constexpr std::pair<std::size_t, std::size_t> kShapes[]{{1, 1},   {1, 9},   {9, 1},   {17, 33},
                                                        {511, 3}, {512, 4}, {1030, 7}};

// Calls f(functions) for each instruction set of this processor.
template <class T, class F>
void for_isas(const F& f) {
  for (const kernels::Isa isa : kernels::kIsas) {
    if (isa > kernels::best_isa()) continue;
    SCOPED_TRACE(kernels::name(isa));
    f(kernels::narrow_products(sizeof(T) == 4 ? kernels::Element::f32 : kernels::Element::f64, isa));
  }
}

template <class T>
void expect_plain_products(std::size_t m, std::size_t n, std::size_t r) {
  const Matrix<T> a(m, n, Input::mixed_scales);
  const auto p = make_input<T>(Input::normal, n * r, seed() + 2),
             q = make_input<T>(Input::normal, m * r, seed() + 3);
  const auto at = [&](std::size_t i, std::size_t j) { return a.x[j * m + i] + a.e[j * m + i]; };
  std::vector<T> expected(m * r);
  for (std::size_t k = 0; k < r; ++k)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const T product = at(i, j) * p[k * n + j];
        expected[k * m + i] += product;
      }
  std::vector<T> across(n * r);
  for (std::size_t k = 0; k < r; ++k)
    for (std::size_t j = 0; j < n; ++j) {
      T sums[16] = {};
      for (std::size_t i = 0; i < m; ++i) {
        const T product = at(i, j) * q[k * m + i];
        sums[i % 16] += product;
      }
      for (std::size_t half = 8; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
      across[k * n + j] = sums[0];
    }
  for_isas<T>([&](const kernels::NarrowProducts& products) {
    std::vector<T> got(m * r, std::numeric_limits<T>::quiet_NaN()), got_across(n * r, got[0]);
    products.multiply(a.view(), p.data(), r, got.data());
    EXPECT_TRUE(same_bits(expected, got)) << m << " x " << n << ", " << r;
    products.multiply_transposed(a.view(), q.data(), r, got_across.data());
    EXPECT_TRUE(same_bits(across, got_across)) << m << " x " << n << ", " << r;
  });
}

TEST(LowRank, products_have_the_bits_of_the_plain_loop) {
  for (const auto& [m, n] : kShapes)
    for (const std::size_t r : {1, 2, 5, kMostRank}) {
      expect_plain_products<float>(m, n, r);
      expect_plain_products<double>(m, n, r);
    }
}

template <class T>
void expect_orthonormal(const std::vector<T>& columns, std::size_t n, std::size_t r) {
  for (std::size_t a = 0; a < r; ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        sum += static_cast<double>(columns[a * n + i]) * static_cast<double>(columns[b * n + i]);
      // Each column is rounded by at most half a unit of each element. In double, sums round too.
      const double unit = std::numeric_limits<T>::epsilon();
      EXPECT_NEAR(sum, a == b ? 1 : 0, unit * (sizeof(T) == 4 ? 2.0 : 4 * std::sqrt(static_cast<double>(n))))
          << a << ", " << b;
    }
}

// The columns of `kind`, scaled, become orthonormal whatever the scale.
template <class T>
void expect_orthonormal(std::size_t n, std::size_t r, T scale) {
  auto columns = make_input<T>(Input::normal, n * r, seed());
  // Nearly parallel columns lose all digits in one pass.
  for (std::size_t k = 1; k < r; ++k)
    for (std::size_t i = 0; i < n; ++i) columns[k * n + i] = columns[i] + columns[k * n + i] / 1000;
  for (T& v : columns) v *= scale;
  std::vector<double> work(n * r);
  orthonormalize(columns.data(), n, r, work.data());
  expect_orthonormal(columns, n, r);
}

TEST(LowRank, columns_become_orthonormal_at_every_scale) {
  for (const std::size_t n : {8, 9, 1000})
    for (const std::size_t r : {1, 2, 7}) {
      for (const float scale : {1.0F, 1e36F, 1e-36F}) expect_orthonormal<float>(n, r, scale);
      for (const double scale : {1.0, 1e300, 1e-300}) expect_orthonormal<double>(n, r, scale);
    }
}

TEST(LowRank, columns_that_depend_on_others_become_zero) {
  std::vector<double> work(30);
  std::vector<double> columns(30);
  for (std::size_t i = 0; i < 10; ++i) {
    columns[i] = static_cast<double>(i) - 3;
    columns[20 + i] = -7 * columns[i];
  }  // the second one is zero
  orthonormalize(columns.data(), 10, 3, work.data());
  for (std::size_t i = 10; i < 30; ++i) EXPECT_EQ(columns[i], 0);
  std::vector<double> one(columns.begin(), columns.begin() + 10);
  expect_orthonormal(one, 10, 1);
}

TEST(LowRank, columns_of_zeros_alone_get_random_numbers_that_depend_on_the_call) {
  std::vector<float> a(60), b(60);
  a[25] = 3;
  b[25] = 3;
  fill_zero_columns(a.data(), 20, 3, 4);
  fill_zero_columns(b.data(), 20, 3, 5);
  for (std::size_t i = 20; i < 40; ++i) EXPECT_EQ(a[i], i == 25 ? 3 : 0);
  EXPECT_NE(std::vector<float>(a.begin(), a.begin() + 20), std::vector<float>(b.begin(), b.begin() + 20));
  EXPECT_NE(std::vector<float>(a.begin(), a.begin() + 20), std::vector<float>(a.begin() + 40, a.end()));
  for (const float v : a) EXPECT_LE(std::abs(v), 3);
}

template <class T>
void expect_last_pass(const kernels::NarrowProducts& products) {
  const std::size_t m = 601, n = 5, r = 3;
  Matrix<T> a(m, n);
  auto p = make_input<T>(Input::normal, n * r, seed() + 2),
       q_sum = make_input<T>(Input::normal, m * r, seed() + 3),
       q_own = make_input<T>(Input::normal, m * r, seed() + 4);
  q_own[2] = std::numeric_limits<T>::max();  // its products with p overflow in row 2
  std::vector<T> result(m * n), residual(m * n);
  const kernels::NarrowFactors factors{p.data(), q_sum.data(), q_own.data(), r};
  products.deliver(a.view(), factors, result.data(), residual.data());
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = 0; i < m; ++i) {
      T sum = 0, left = a.x[j * m + i] + a.e[j * m + i];
      for (std::size_t k = 0; k < r; ++k) {
        sum += q_sum[k * m + i] * p[k * n + j];
        left -= q_own[k * m + i] * p[k * n + j];
      }
      ASSERT_EQ(result[j * m + i], sum);
      ASSERT_EQ(residual[j * m + i], std::isfinite(left) ? left : 0);
    }
  products.deliver(a.view(), factors, a.x.data(), a.e.data());
  EXPECT_TRUE(same_bits(a.x, result));
  EXPECT_TRUE(same_bits(a.e, residual));
}

TEST(LowRank, the_last_pass_works_in_place_and_leaves_finite_residuals) {
  for_isas<float>(expect_last_pass<float>);
  for_isas<double>(expect_last_pass<double>);
}

TEST(LowRank, what_could_overflow_is_not_tame) {
  const float most = std::numeric_limits<float>::max();
  const auto tame = [](std::vector<float> q, int ranks = 1) {
    return is_tame<float>(greatest_row(q.data(), 1, q.size()), ranks);
  };
  EXPECT_TRUE(tame({0, most / 4, -most / 4}));
  EXPECT_FALSE(tame({0, most / 4, -most / 4}, 2));
  EXPECT_TRUE(tame({0, most / 8, -most / 8}, 2));
  EXPECT_FALSE(tame({0, most / 2, most / 4}));
  EXPECT_FALSE(tame({most, most, most, most}));
  EXPECT_FALSE(tame({0, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_FALSE(tame({-std::numeric_limits<float>::infinity()}));
  const double wide[]{std::numeric_limits<double>::max(), 1, -std::numeric_limits<double>::max(), 1};
  EXPECT_FALSE(is_tame<double>(greatest_row(wide, 2, 2), 1));
  EXPECT_TRUE(is_tame<double>(greatest_row(wide + 1, 1, 1), 1000));
}

}  // namespace
}  // namespace mq::test
