// The product of factors: U V^T. It is apart from the messages so that its order of additions can be tested.
#pragma once

#include <algorithm>
#include <cstddef>

namespace mq {

// One column of each factor: u has m elements, v has n.
template <class T>
struct FactorColumn {
  const T* u;
  const T* v;
};

// result = the sum over all columns c of u_c v_c^T, an m x n matrix, stored column by column. column(c) gives
// column c of `columns`. Each element is 0 plus its products in the order of the columns, each rounded and
// then added. So the bits are the same on every processor. Rows are taken in pieces, so that a piece of all
// columns of U can stay in a cache.
template <class T, class Column>
void sum_outer_products(std::size_t m, std::size_t n, std::size_t columns, const Column& column, T* result) {
  constexpr std::size_t kPiece = 512;
  std::fill_n(result, m * n, T{0});
  for (std::size_t first = 0; first < m; first += kPiece) {
    const std::size_t rows = std::min(kPiece, m - first);
    for (std::size_t j = 0; j < n; ++j) {
      T* const sums = result + j * m + first;
      for (std::size_t c = 0; c < columns; ++c) {
        const FactorColumn<T> factor = column(c);
        const T* const u = factor.u + first;
        const T v = factor.v[j];
        for (std::size_t i = 0; i < rows; ++i) sums[i] += u[i] * v;
      }
    }
  }
}

// True if the factors of all ranks, `columns` columns of m + n elements, are fewer elements than a dense
// reduction of the matrix moves, which is 2 m n. Both are sent by (P-1)/P of that, so that P does not matter
// (Xie et al., "Lighter- communication distributed machine learning via sufficient factor broadcasting", UAI
// 2016, section 3). All are at most 2^58, and so is m n.
constexpr bool factors_are_fewer(std::size_t m, std::size_t n, std::size_t columns) {
  return m * n > 0 && columns <= (2 * m * n - 1) / (m + n);
}

}  // namespace mq
