// What tests of the public sparse functions share: lists of all ranks, and an oracle that every rank computes
// from them.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"
#include "tests/sparse_allreduce/sparse_inputs.hpp"

namespace mq::test {
struct Case {
  Spread spread = Spread::uniform;
  std::uint64_t size = 10000, count = 500;
  MPI_Count stride = 1;
  MPI_Op op = MPI_SUM;
  std::uint64_t seed = 1;
};

inline std::vector<std::int64_t> to_signed(const std::vector<std::uint64_t>& indices) {
  return {indices.begin(), indices.end()};
}

class Sparse : public Api {
 protected:
  std::vector<std::int64_t> indices(const Case& c, int of) const {
    return to_signed(sparse_indices({c.spread, c.size, c.count, of, size, c.seed}));
  }
  template <class T>
  std::vector<T> values(const Case& c, int of, ValueKind kind = ValueKind::integers) const {
    const std::size_t n = indices(c, of).size() * static_cast<std::size_t>(c.stride);
    return sparse_values<T>(kind, n, c.seed, of);
  }
  // What all ranks together have of each index, integers, so in double exactly.
  template <class T>
  std::map<std::int64_t, std::vector<double>> oracle(const Case& c) const {
    std::map<std::int64_t, std::vector<double>> all;
    for (int r = 0; r < size; ++r) {
      const std::vector<std::int64_t> at = indices(c, r);
      const std::vector<T> v = values<T>(c, r);
      const auto stride = static_cast<std::size_t>(c.stride);
      for (std::size_t i = 0; i < at.size(); ++i) {
        const bool first = all.find(at[i]) == all.end();
        std::vector<double>& sums = all[at[i]];
        sums.resize(stride);
        for (std::size_t j = 0; j < stride; ++j) {
          const auto x = static_cast<double>(v[i * stride + j]);
          sums[j] = first             ? x
                    : c.op == MPI_MIN ? std::min(sums[j], x)
                    : c.op == MPI_MAX ? std::max(sums[j], x)
                                      : sums[j] + x;
        }
      }
    }
    return all;
  }
  static double absent(MPI_Op op) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return op == MPI_MIN ? kInf : op == MPI_MAX ? -kInf : 0;
  }
  // What this rank asks for: its neighbour's indices and some that may be nobody's, not in order.
  std::vector<std::int64_t> wanted(const Case& c) const {
    std::vector<std::int64_t> in = indices(c, (rank + 1) % size);
    for (std::uint64_t i = 0; i < c.size; i += 97) in.push_back(static_cast<std::int64_t>(i));
    std::reverse(in.begin(), in.end());
    return in;
  }
  template <class T>
  void expect_wanted(const Case& c, const std::vector<std::int64_t>& in, const std::vector<T>& got,
                     double factor = 1) const {
    const auto all = oracle<T>(c);
    const auto stride = static_cast<std::size_t>(c.stride);
    for (std::size_t i = 0; i < in.size(); ++i)
      for (std::size_t j = 0; j < stride; ++j) {
        const auto found = all.find(in[i]);
        const double expected = found == all.end() ? absent(c.op) : factor * found->second[j];
        ASSERT_EQ(static_cast<double>(got[i * stride + j]), expected) << "index " << in[i];
      }
  }
  template <class T>
  int reduce(const Case& c, const std::vector<std::int64_t>& out, const std::vector<T>& v,
             const std::vector<std::int64_t>& in, std::vector<T>& result, MPI_Info info) const {
    result.assign(in.size() * static_cast<std::size_t>(std::max<MPI_Count>(c.stride, 1)), T{-99});
    return MPIQ_Sparse_allreduce(static_cast<MPI_Count>(out.size()), out.data(), v.data(),
                                 static_cast<MPI_Count>(in.size()), in.data(), result.data(), c.stride,
                                 mpi_type<T>(), c.op, comm, info);
  }
  template <class T>
  void expect_union(const Case& c, const std::string& algorithm) const {
    const std::vector<std::int64_t> at = indices(c, rank);
    const std::vector<T> v = values<T>(c, rank);
    const auto all = oracle<T>(c);
    const auto stride = static_cast<std::size_t>(c.stride);
    const std::string where = algorithm + " " + name(c.spread) + " " + std::to_string(c.count);
    const Info info{{"mpiq_algorithm", algorithm}};
    std::vector<std::int64_t> result(all.size() + 3);
    std::vector<T> sums(result.size() * stride);
    MPI_Count n = -1;
    ASSERT_EQ(MPIQ_Sparse_allreduce_union(static_cast<MPI_Count>(at.size()), at.data(), v.data(),
                                          static_cast<MPI_Count>(c.size),
                                          static_cast<MPI_Count>(result.size()), result.data(), sums.data(),
                                          &n, c.stride, mpi_type<T>(), c.op, comm, info),
              MPI_SUCCESS)
        << where;
    ASSERT_EQ(n, static_cast<MPI_Count>(all.size())) << where;
    std::size_t i = 0;
    for (const auto& [index, expected] : all) {
      ASSERT_EQ(result[i], index) << where;
      for (std::size_t j = 0; j < stride; ++j)
        ASSERT_EQ(static_cast<double>(sums[i * stride + j]), expected[j]) << where << " index " << index;
      ++i;
    }
    std::vector<T> dense(c.size * stride, T{-99});
    ASSERT_EQ(
        MPIQ_Sparse_allreduce_union(static_cast<MPI_Count>(at.size()), at.data(), v.data(),
                                    static_cast<MPI_Count>(c.size), static_cast<MPI_Count>(c.size), nullptr,
                                    dense.data(), nullptr, c.stride, mpi_type<T>(), c.op, comm, info),
        MPI_SUCCESS)
        << where;
    ASSERT_TRUE(same_on_all_ranks(dense)) << where;
    for (std::uint64_t index = 0; index < c.size; ++index)
      for (std::size_t j = 0; j < stride; ++j) {
        const auto found = all.find(static_cast<std::int64_t>(index));
        ASSERT_EQ(static_cast<double>(dense[index * stride + j]),
                  found == all.end() ? absent(c.op) : found->second[j])
            << where << " index " << index;
      }
  }
};

// Values of mpiq_algorithm.
inline const std::vector<std::string> kAlgorithms{"auto", "allgather", "split", "recursive_doubling",
                                                  "dense"};

}  // namespace mq::test
