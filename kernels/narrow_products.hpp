// Products of a matrix with narrow ones, which have few columns: the linear algebra of lowrank
// (mpi_quant/schemes/low_rank.cpp). They exist once for each instruction set. Every sum has a fixed order,
// and every product is rounded before it is added, so all give the same bits.
#pragma once

#include <cstddef>

#include "kernels/codec.hpp"

namespace mq::kernels {

// A = x + e: m x n elements of a rank's vector, and its residual. All matrices are stored column by column.
struct CarriedMatrix {
  const void* x;
  const void* e;
  std::size_t m, n;
};

// The narrow matrices of a call, of r columns: p, n x r, has orthonormal columns; q_sum, m x r, is (the sum
// of all ranks' A) p, and q_own is A p of this rank.
struct NarrowFactors {
  const void *p, *q_sum, *q_own;
  std::size_t r;
};

struct NarrowProducts {
  // q = A p, an m x r matrix. Each element is 0 plus its n products in the order of the columns of A.
  void (*multiply)(const CarriedMatrix& a, const void* p, std::size_t r, void* q) noexcept;
  // p = A^T q, an n x r matrix. Each element has 16 sums: sum i mod 16 gets product i. They are then added in
  // halves: the upper 8 to the lower 8, and so on.
  void (*multiply_transposed)(const CarriedMatrix& a, const void* q, std::size_t r, void* p) noexcept;
  // result = q_sum p^T, and residual = A - q_own p^T, column of p by column of p. So results and residuals of
  // all ranks add up to the sum of A, up to rounding. a.e is the residual; result may be a.x. What is not
  // finite in a residual becomes 0.
  void (*deliver)(const CarriedMatrix& a, const NarrowFactors& f, void* result, void* residual) noexcept;
};

// element: f32 or f64.
const NarrowProducts& narrow_products(Element element, Isa isa) noexcept;

}  // namespace mq::kernels
