// Checks the result of a sparse reduction. The sum of all ranks' lists is made again from the generators in
// double, and every form of result is compared with it.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bench/check.hpp"
#include "bench/data.hpp"
#include "bench/sparse_call.hpp"
#include "bench/sparse_data.hpp"

namespace mq::bench {

// The lists of a point and their values. Every rank can make the lists of any rank.
struct SparseInputs {
  SparseShape shape;
  SupportGenerator support;
  Generator values;

  template <class T>
  T value(int rank, std::uint64_t number, std::int64_t index, std::uint64_t j) const {
    const auto i = static_cast<std::uint64_t>(index) + number * shape.size;
    return values.value<T>(rank, i * shape.stride + j);
  }
  // The values of a list, in its order.
  std::vector<std::byte> list_values(int rank, std::uint64_t number,
                                     std::span<const std::int64_t> indices) const;
};

// The union of lists, with sums in double; strictly ascending.
struct SparseSum {
  std::uint64_t stride = 1;
  std::vector<std::int64_t> indices;
  // of the values, and of their magnitudes: `stride` of each at an index
  std::vector<double> sum, magnitude;
};
SparseSum sum_of_lists(const SparseInputs& inputs, std::uint64_t number, int ranks);

class SparseChecker {
 public:
  SparseChecker(SparseSum reference, const SparseShape& shape, MPI_Comm comm);
  // Compares every element of the result, on every rank; n_wrong is the sum over all ranks. exact has the
  // same meaning as in Checker. Where no rank has an index, only 0 is exact. Collective.
  ResultErrors compare_vector(const void* vector, bool exact) const;
  // The list must be the union.
  ResultErrors compare_list(std::span<const std::int64_t> indices, const void* values) const;
  // The values at the indices that this rank wants, strictly ascending.
  ResultErrors compare_wanted(std::span<const std::int64_t> indices, const void* values) const;

 private:
  template <class T>
  void add(ErrorSums& errors, std::span<const std::int64_t> indices, const T* values) const;
  template <class T>
  void add_vector(ErrorSums& errors, const T* vector, bool exact) const;
  bool same_bits(std::span<const std::int64_t> indices, const void* values) const;

  SparseSum reference_;
  SparseShape shape_;
  MPI_Comm comm_;
  int ranks_ = 1;
};

}  // namespace mq::bench
