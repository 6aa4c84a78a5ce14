// MPIQ_Factors_allreduce under real MPI: the sum, the choice between factors and the matrix, and bad
// arguments, which must be an error on all ranks and leave the communicator usable.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <limits>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class Factors : public Api {
 protected:
  // What one rank brings, and the result.
  template <class T>
  struct Problem {
    MPI_Count m, n, k;
    std::vector<T> u, v, result;
  };
  template <class T>
  static std::vector<T> values(MPI_Count count, int of_rank, bool integers) {
    auto x = make_input<T>(Input::normal, static_cast<std::size_t>(count),
                           seed() + static_cast<std::uint64_t>(of_rank));
    for (T& value : x)
      if (integers) value = std::round(value * 3);
    return x;
  }
  template <class T>
  static Problem<T> problem(MPI_Count m, MPI_Count n, MPI_Count k, int of_rank, bool integers) {
    return {m,
            n,
            k,
            values<T>(m * k, of_rank, integers),
            values<T>(n * k, of_rank + 100, integers),
            std::vector<T>(static_cast<std::size_t>(m * n), std::numeric_limits<T>::quiet_NaN())};
  }
  template <class T>
  int sum(Problem<T>& p) const {
    return MPIQ_Factors_allreduce(p.u.data(), p.v.data(), p.m, p.n, p.k, p.result.data(), mpi_type<T>(),
                                  comm);
  }
  // Columns of a rank: different ones, some of them none.
  static MPI_Count columns(MPI_Count about, int of_rank) { return about * (of_rank % 3) / 2; }

  // All ranks' products, in double, and the sums of magnitudes, which bound the rounding.
  template <class T>
  void expect_sum(const Problem<T>& got, MPI_Count about, bool integers) const {
    const auto cells = static_cast<std::size_t>(got.m * got.n), m = static_cast<std::size_t>(got.m),
               n = static_cast<std::size_t>(got.n);
    std::vector<double> expected(cells), magnitude(cells);
    double additions = 0;
    for (int r = 0; r < size; ++r) {
      const Problem<T> p = problem<T>(got.m, got.n, columns(about, r), r, integers);
      additions += static_cast<double>(p.k) + 1;
      for (std::size_t c = 0; c < static_cast<std::size_t>(p.k); ++c)
        for (std::size_t i = 0; i < cells; ++i) {
          const double product =
              static_cast<double>(p.u[c * m + i % m]) * static_cast<double>(p.v[c * n + i / m]);
          expected[i] += product;
          magnitude[i] += std::abs(product);
        }
    }
    const double unit = integers ? 0 : static_cast<double>(std::numeric_limits<T>::epsilon());
    for (std::size_t i = 0; i < cells; ++i)
      ASSERT_LE(std::abs(static_cast<double>(got.result[i]) - expected[i]), unit * additions * magnitude[i])
          << i;
  }
  int total_columns(MPI_Count about) const {
    MPI_Count total = 0;
    for (int r = 0; r < size; ++r) total += columns(about, r);
    return static_cast<int>(total);
  }
};

TEST_F(Factors, give_all_ranks_the_same_bits_near_the_sum_in_either_way) {
  const auto check = [&]<class T>(T) {
    for (const auto& [m, n] : {std::pair{1, 1}, {1, 30}, {30, 1}, {17, 9}, {64, 48}, {600, 33}})
      for (const MPI_Count about : {0, 1, 4, 20, 70})
        for (const bool integers : {true, false}) {
          auto p = problem<T>(m, n, columns(about, rank), rank, integers);
          const MPIQ_Stats before = stats();
          ASSERT_EQ(sum(p), MPI_SUCCESS);
          expect_sum(p, about, integers);
          EXPECT_TRUE(same_on_all_ranks(p.result));
          const MPIQ_Stats after = stats();
          EXPECT_EQ(after.scheme_calls - before.scheme_calls, size > 1 ? 1u : 0u);
          EXPECT_EQ(after.compressed_calls, before.compressed_calls) << "a part is no call";
          EXPECT_EQ(after.calls, before.calls);
          if (total_columns(about) * (m + n) < 2 * m * n) {
            const MPI_Count mine = p.k * (m + n), all = total_columns(about) * (m + n);
            const std::uint64_t width = sizeof(T), others = static_cast<std::uint64_t>(size - 1);
            EXPECT_EQ(after.wire_bytes_sent - before.wire_bytes_sent,
                      static_cast<std::uint64_t>(mine) * width * others);
            EXPECT_EQ(after.wire_bytes_received - before.wire_bytes_received,
                      size > 1 ? static_cast<std::uint64_t>(all - mine) * width : 0);
          } else if (size > 1) {
            EXPECT_GT(after.wire_bytes_sent, before.wire_bytes_sent)
                << "the dense matrix is summed by frames";
          }
        }
  };
  check(float{});
  check(double{});
}

TEST_F(Factors, of_no_rank_are_zeros_and_an_empty_matrix_is_nothing) {
  auto none = problem<float>(20, 30, 0, rank, false);
  ASSERT_EQ(MPIQ_Factors_allreduce(nullptr, nullptr, 20, 30, 0, none.result.data(), MPI_FLOAT, comm),
            MPI_SUCCESS);
  for (const float value : none.result) ASSERT_EQ(value, 0.0F);
  for (const auto& [m, n] : {std::pair{0, 0}, {0, 5}, {5, 0}}) {
    auto p = problem<double>(m, n, 3, rank, false);
    ASSERT_EQ(sum(p), MPI_SUCCESS);
  }
}

TEST_F(Factors, that_are_not_finite_spoil_their_row_and_column_alone) {
  for (const MPI_Count k : {1, 40}) {
    auto p = problem<float>(40, 20, k, rank, false);
    if (rank == size - 1) {
      p.u[7] = std::numeric_limits<float>::quiet_NaN();
      p.v[3] = std::numeric_limits<float>::infinity();
    }
    ASSERT_EQ(sum(p), MPI_SUCCESS);
    for (std::size_t i = 0; i < p.result.size(); ++i)
      ASSERT_EQ(std::isfinite(p.result[i]), i % 40 != 7 && i / 40 != 3) << i;
  }
}

TEST_F(Factors, with_bad_arguments_on_one_rank_are_an_error_on_all) {
  struct Bad {
    MPI_Count m, n, k;
    MPI_Datatype type;
    int buffers;  // 0: good, 1: u is NULL, 2: result is NULL, 3: result is u, 4: MPI_IN_PLACE
    const char* error;
  };
  constexpr MPI_Count kHuge = MPI_Count{1} << 40;
  const Bad all[]{{-1, 9, 2, MPI_FLOAT, 0, "m -1 is negative"},
                  {9, -1, 2, MPI_FLOAT, 0, "n -1 is negative"},
                  {9, 9, -2, MPI_FLOAT, 0, "k -2 is negative"},
                  {9, 9, 2, MPI_INT, 0, "must be MPI_FLOAT or MPI_DOUBLE"},
                  {kHuge, kHuge, 2, MPI_FLOAT, 0, "more than 2^58"},
                  {9, 9, 2, MPI_FLOAT, 1, "u is NULL"},
                  {9, 9, 2, MPI_FLOAT, 2, "result is NULL"},
                  {9, 9, 2, MPI_FLOAT, 3, "result overlaps u or v"},
                  {9, 9, 2, MPI_FLOAT, 4, "u is MPI_IN_PLACE"}};
  for (const Bad& bad : all) {
    auto p = problem<float>(9, 9, 2, rank, false);
    const void* u = p.u.data();
    void* result = p.result.data();
    std::vector<float> both(200, 1.0F);
    if (rank != size - 1) {
      expect_error_everywhere(size > 1 ? sum(p) : MPI_ERR_OTHER, "");
      continue;
    }
    if (bad.buffers == 1) u = nullptr;
    if (bad.buffers == 2) result = nullptr;
    if (bad.buffers == 3) u = both.data(), result = both.data() + 1;
    if (bad.buffers == 4) u = MPI_IN_PLACE;
    expect_error_everywhere(
        MPIQ_Factors_allreduce(u, p.v.data(), bad.m, bad.n, bad.k, result, bad.type, comm), bad.error);
  }
}

TEST_F(Factors, of_different_shapes_or_types_are_an_error_on_all_ranks) {
  if (size == 1) return;
  const bool odd = rank == size - 1;
  auto p = problem<float>(odd ? 10 : 9, 9, 2, rank, false);
  expect_error_everywhere(sum(p), "10 x 9 MPI_FLOAT");
  auto f = problem<float>(9, 9, 2, rank, false);
  auto d = problem<double>(9, 9, 2, rank, false);
  expect_error_everywhere(odd ? sum(d) : sum(f), "9 x 9 MPI_DOUBLE");
}

TEST_F(Factors, while_a_rank_is_in_another_function_are_an_error_on_all_ranks) {
  if (size == 1) return;
  std::vector<float> x(100, 1.0F);
  auto p = problem<float>(10, 10, 1, rank, false);
  const int code = rank == 0 ? MPIQ_Allreduce(MPI_IN_PLACE, x.data(), 100, MPI_FLOAT, MPI_SUM, comm,
                                              Info{{"mpiq_method", "onebit"}})
                             : sum(p);
  expect_error_everywhere(code, "MPIQ_Factors_all");
}

TEST_F(Factors, over_an_intercommunicator_are_an_error) {
  if (size == 1) return;
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0, rank, &half);
  MPI_Intercomm_create(half, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  auto p = problem<float>(9, 9, 2, rank, false);
  expect_error_everywhere(
      MPIQ_Factors_allreduce(p.u.data(), p.v.data(), 9, 9, 2, p.result.data(), MPI_FLOAT, inter),
      "intercommunicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace mq::test
