// The linear algebra of lowrank beside kernels/narrow_products.hpp: orthonormal columns. It is apart from the
// messages so that its order of additions can be tested. All matrices are stored column by column. Every sum
// has a fixed order, and every product is rounded before it is added. So the bits are the same on every
// processor (DefaultFloats).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/policy/scheme.hpp"

namespace mq {

// The sum of products of two vectors, as 16 sums side by side: sum i mod 16 gets product i. They are then
// added in halves.
template <class T>
class Dot {
 public:
  void add(const T* x, const T* y, std::size_t n) {
    std::size_t i = 0;
    for (; i + kSums <= n; i += kSums)
      for (std::size_t l = 0; l < kSums; ++l) sums_[l] += x[i + l] * y[i + l];
    for (std::size_t l = 0; i + l < n; ++l) sums_[l] += x[i + l] * y[i + l];
  }
  T value() const {
    std::array<T, kSums> sums = sums_;
    for (std::size_t half = kSums / 2; half > 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    return sums[0];
  }

 private:
  static constexpr std::size_t kSums = 16;
  std::array<T, kSums> sums_{};
};

// The greatest sum of magnitudes of a row of q, divided by 4. Infinity if an element is not finite.
template <class T>
double greatest_row(const T* q, std::size_t n, std::size_t r) {
  double greatest = 0;
  for (std::size_t j = 0; j < n; ++j) {
    double sum = 0;
    for (std::size_t k = 0; k < r; ++k) sum += std::abs(static_cast<double>(q[k * n + j])) / 4;
    if (!(sum <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    greatest = std::max(greatest, sum);
  }
  return greatest;
}

// True if no element of q p^T can overflow, whatever p with orthonormal columns. q is the sum of the ranks'
// own ones, and greatest the greatest of their greatest_row().
template <class T>
bool is_tame(double greatest, int ranks) {
  return greatest * ranks <= static_cast<double>(std::numeric_limits<T>::max()) / 8;
}

template <class T>
bool is_finite(const T* x, std::size_t n) {
  return std::all_of(x, x + n, [](T v) { return std::abs(v) <= std::numeric_limits<T>::max(); });
}

// Makes the r columns of n elements orthonormal by modified Gram-Schmidt (Björck, "Solving linear least
// squares problems by Gram-Schmidt orthogonalization", BIT 1967), twice for each column ("twice is enough":
// Giraud, Langou, Rozloznik 2005). A column that depends on those before it, up to 2^-40, becomes zero. work
// has n elements for each column. All arithmetic is in double. Elements must be finite.
template <class T>
void orthonormalize(T* columns, std::size_t n, std::size_t r, double* work) {
  const auto dot = [n](const double* x, const double* y) {
    Dot<double> sum;
    sum.add(x, y, n);
    return sum.value();
  };
  for (std::size_t k = 0; k < r; ++k) {
    double* const v = work + k * n;
    double greatest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = static_cast<double>(columns[k * n + i]);
      greatest = std::max(greatest, std::abs(v[i]));
    }
    // Squares of doubles may overflow or vanish: then the greatest magnitude becomes 1 to 2.
    const int exponent = greatest > 0 ? std::ilogb(greatest) : 0;
    if (std::abs(exponent) > 400)
      for (std::size_t i = 0; i < n; ++i) v[i] = std::scalbn(v[i], -exponent);
    const double before = std::sqrt(dot(v, v));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t b = 0; b < k; ++b) {
        const double* const base = work + b * n;
        const double along = dot(base, v);
        for (std::size_t i = 0; i < n; ++i) v[i] -= along * base[i];
      }
    const double after = std::sqrt(dot(v, v));
    const double factor = after > std::ldexp(before, -40) ? 1 / after : 0;
    for (std::size_t i = 0; i < n; ++i) {
      v[i] *= factor;
      columns[k * n + i] = static_cast<T>(v[i]);
    }
  }
}

// Gives each column of zeros random numbers from -1 to 1, by its position and `call` alone.
template <class T>
void fill_zero_columns(T* columns, std::size_t n, std::size_t r, std::uint64_t call) {
  for (std::size_t k = 0; k < r; ++k) {
    T* const column = columns + k * n;
    if (std::any_of(column, column + n, [](T v) { return v != 0; })) continue;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t random = mixed(mixed(call * kMostRank + k + 1) + 0x9e3779b97f4a7c15u * (i + 1));
      column[i] = static_cast<T>(static_cast<double>(random >> 11) * 0x1p-52 - 1);
    }
  }
}

}  // namespace mq
