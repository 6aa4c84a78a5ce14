// The linear algebra of lowrank: products of a matrix with narrow ones, and orthonormal columns. It is apart
// from the messages so that its order of additions can be tested. All matrices are stored column by column.
// Every sum has a fixed order, and every product is rounded before it is added. So the bits are the same on
// every processor (DefaultFloats).
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

// A = x + e: m x n elements of a rank's vector, and its residual. Rows are taken in pieces that stay in the
// L1 cache, so that an element is read once for all columns of the narrow matrix.
template <class T>
struct CarriedMatrix {
  static constexpr std::size_t kPiece = 512;
  const T* x;
  const T* e;
  std::size_t m, n;

  // Calls f(j, first, rows, v): rows first to first + rows - 1 of column j are v, an array that f may change.
  template <class F>
  void piece(std::size_t j, std::size_t first, const F& f) const {
    T v[kPiece];
    const std::size_t rows = std::min(kPiece, m - first);
    const T *const from = x + j * m + first, *const left = e + j * m + first;
    for (std::size_t i = 0; i < rows; ++i) v[i] = from[i] + left[i];
    f(rows, v);
  }
};

// p = A q, an m x r matrix. Each element is 0 plus its n products in the order of the columns of A. The rows
// are taken in strips, so that a strip of p stays in the L2 cache while columns of A are read in long runs.
template <class T>
void multiply(const CarriedMatrix<T>& a, const T* q, std::size_t r, T* p) {
  constexpr std::size_t kStripBytes = 64 << 10;
  const std::size_t pieces = std::max<std::size_t>(1, kStripBytes / (r * a.kPiece * sizeof(T)));
  const std::size_t strip = pieces * a.kPiece;
  std::fill_n(p, a.m * r, T{0});
  for (std::size_t top = 0; top < a.m; top += strip)
    for (std::size_t j = 0; j < a.n; ++j)
      for (std::size_t first = top; first < std::min(a.m, top + strip); first += a.kPiece)
        a.piece(j, first, [&](std::size_t rows, const T* v) {
          for (std::size_t k = 0; k < r; ++k) {
            T* const sums = p + k * a.m + first;
            const T factor = q[k * a.n + j];
            for (std::size_t i = 0; i < rows; ++i) sums[i] += v[i] * factor;
          }
        });
}

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

// q = A^T p, an n x r matrix. r is at most kMostRank.
template <class T>
void multiply_transposed(const CarriedMatrix<T>& a, const T* p, std::size_t r, T* q) {
  for (std::size_t j = 0; j < a.n; ++j) {
    std::array<Dot<T>, kMostRank> sums{};
    for (std::size_t first = 0; first < a.m; first += a.kPiece)
      a.piece(j, first, [&](std::size_t rows, const T* v) {
        for (std::size_t k = 0; k < r; ++k) sums[k].add(v, p + k * a.m + first, rows);
      });
    for (std::size_t k = 0; k < r; ++k) q[k * a.n + j] = sums[k].value();
  }
}

// The narrow matrices of a call: p has orthonormal columns, q_sum = (the sum of all ranks' A)^T p, q_own =
// A^T p of this rank.
template <class T>
struct Factors {
  const T *p, *q_sum, *q_own;
  std::size_t r;
};

// result = p q_sum^T, and residual = A - p q_own^T. So results and residuals of all ranks add up to the sum
// of A, up to rounding. a.e is the residual; result may be a.x. What is not finite in a residual becomes 0.
template <class T>
void deliver(const CarriedMatrix<T>& a, const Factors<T>& f, T* result, T* residual) {
  for (std::size_t j = 0; j < a.n; ++j)
    for (std::size_t first = 0; first < a.m; first += a.kPiece)
      a.piece(j, first, [&](std::size_t rows, T* v) {
        T sums[CarriedMatrix<T>::kPiece] = {};
        for (std::size_t k = 0; k < f.r; ++k) {
          const T* const p = f.p + k * a.m + first;
          const T of_all = f.q_sum[k * a.n + j], own = f.q_own[k * a.n + j];
          for (std::size_t i = 0; i < rows; ++i) {
            sums[i] += p[i] * of_all;
            v[i] -= p[i] * own;
          }
        }
        std::copy_n(sums, rows, result + j * a.m + first);
        T* const left = residual + j * a.m + first;
        for (std::size_t i = 0; i < rows; ++i)
          left[i] = std::abs(v[i]) <= std::numeric_limits<T>::max() ? v[i] : T{0};
      });
}

// True if no element of p q^T can overflow, whatever p with orthonormal columns. False if an element is not
// finite.
template <class T>
bool is_tame(const T* q, std::size_t n, std::size_t r) {
  for (std::size_t j = 0; j < n; ++j) {
    T sum = 0;
    for (std::size_t k = 0; k < r; ++k) sum += std::abs(q[k * n + j]) / 4;
    if (!(sum <= std::numeric_limits<T>::max() / 8)) return false;
  }
  return true;
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
