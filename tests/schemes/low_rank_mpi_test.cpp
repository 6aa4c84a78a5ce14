// lowrank under real MPI: its accuracy, what it leaves out, its residuals in the MPIQ_Residual_ functions,
// the calls that it cannot serve, and calls of ranks that do not fit together.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

struct Shape {
  std::size_t m, n, rank;
  std::size_t count() const { return m * n; }
  std::string matrix() const { return std::to_string(m) + "x" + std::to_string(n); }
  std::string method() const { return "lowrank(rank=" + std::to_string(rank) + ")"; }
};
constexpr Shape kShapes[]{{12, 40, 1}, {40, 12, 3}, {33, 17, 4}, {1030, 5, 2}, {64, 64, 8}};

class LowRank : public Api {
 protected:
  template <class T>
  int reduce(const Shape& s, const std::vector<T>& x, std::vector<T>& y, const char* key = "k",
             const std::string& plan = "") const {
    return MPIQ_Allreduce(
        x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, comm,
        Info{{"mpiq_method", s.method() + plan}, {"mpiq_key", key}, {"mpiq_matrix", s.matrix()}});
  }
  // A matrix of a rank whose sum over all ranks has at most this rank: all ranks have the same columns.
  template <class T>
  std::vector<T> of_rank(const Shape& s, std::size_t true_rank) const {
    const auto u = make_input<T>(Input::normal, s.m * true_rank, seed()),
               v = make_input<T>(Input::normal, s.n * true_rank,
                                 seed() + 10 + static_cast<std::uint64_t>(rank));
    std::vector<T> x(s.count());
    for (std::size_t k = 0; k < true_rank; ++k)
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += u[k * s.m + i % s.m] * v[k * s.n + i / s.m];
    return x;
  }
  template <class T>
  std::vector<double> sum_of(const std::vector<T>& x) const {
    std::vector<double> sum(x.begin(), x.end());
    MPI_Allreduce(MPI_IN_PLACE, sum.data(), static_cast<int>(sum.size()), MPI_DOUBLE, MPI_SUM, comm);
    return sum;
  }
  template <class T>
  std::vector<T> residual(const Shape& s, const char* key = "k") const {
    std::vector<T> e(s.count());
    EXPECT_EQ(MPIQ_Residual_get(comm, key, 0, static_cast<MPI_Count>(e.size()), e.data()), MPI_SUCCESS);
    return e;
  }
  static double greatest(const std::vector<double>& x) {
    double most = 0;
    for (const double v : x) most = std::max(most, std::abs(v));
    return most;
  }
};

// A random basis of r columns in n dimensions sees a direction by about 1/sqrt(n r) of its length, and
// rounding errors grow by the inverse.
template <class T>
double tolerance(const Shape& s, int ranks) {
  return static_cast<double>(std::numeric_limits<T>::epsilon()) * 16 * ranks *
         static_cast<double>(s.n + s.m) * std::sqrt(static_cast<double>(s.rank));
}

TEST_F(LowRank, gives_all_ranks_the_sum_if_its_rank_is_not_greater) {
  const auto check = [&]<class T>(T) {
    for (const Shape& s : kShapes)
      for (std::size_t true_rank = 0; true_rank <= s.rank; ++true_rank) {
        const std::vector<T> x = of_rank<T>(s, true_rank);
        const std::vector<double> exact = sum_of(x);
        std::vector<T> y(x.size(), std::numeric_limits<T>::quiet_NaN());
        MPIQ_Residual_reset(comm, "k");
        for (int call = 0; call < 3; ++call) {
          ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
          EXPECT_TRUE(same_on_all_ranks(y));
          const double bound = tolerance<T>(s, size) * greatest(exact);
          for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_LE(std::abs(static_cast<double>(y[i]) - exact[i]), bound)
                << s.matrix() << " rank " << true_rank << " by " << s.method() << ", call " << call;
        }
      }
  };
  check(float{});
  check(double{});
}

TEST_F(LowRank, loses_nothing_what_it_leaves_out_is_in_the_residuals) {
  const auto check = [&]<class T>(T) {
    for (const Shape& s : kShapes) {
      MPIQ_Residual_reset(comm, "k");
      std::vector<double> before(s.count());
      for (int call = 0; call < 5; ++call) {
        const std::vector<T> x =
            make_input<T>(Input::normal, s.count(), seed() + static_cast<std::uint64_t>(10 * call + rank));
        std::vector<T> y(s.count());
        ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
        if (size == 1) return;
        const std::vector<double> given = sum_of(x), after = sum_of(residual<T>(s));
        const double scale = greatest(given) + greatest(before) + greatest(after) + size;
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_NEAR(static_cast<double>(y[i]) + after[i], given[i] + before[i],
                      static_cast<double>(std::numeric_limits<T>::epsilon()) * 4 * size *
                          std::sqrt(static_cast<double>(s.m)) * static_cast<double>(s.rank) * scale)
              << s.matrix() << ", call " << call;
        before = after;
      }
    }
  };
  check(float{});
  check(double{});
}

TEST_F(LowRank, delivers_a_constant_matrix_over_many_calls_and_the_rest_by_a_flush) {
  const Shape s{48, 30, 2};
  const std::vector<float> x = input<float>(s.count());
  const std::vector<double> exact = sum_of(x);
  std::vector<double> sum(s.count());
  std::vector<float> y(s.count()), rest(s.count());
  constexpr int kCalls = 60;
  double first = 0;
  for (int call = 0; call < kCalls; ++call) {
    ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(y[i]);
    if (call == 0) first = relative_error(sum, exact);
  }
  std::vector<double> mean = sum;
  for (double& v : mean) v /= kCalls;
  if (size > 1) {
    EXPECT_GT(first, 0.5) << "rank 2 of a random matrix is not much of it";
    EXPECT_LT(relative_error(mean, exact), first / 3);
  }
  ASSERT_EQ(MPIQ_Residual_flush(rest.data(), static_cast<MPI_Count>(rest.size()), MPI_FLOAT, comm, "k"),
            MPI_SUCCESS);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(rest[i]);
  for (double& v : sum) v /= kCalls;
  EXPECT_LT(relative_error(sum, exact), 1e-4);
}

TEST_F(LowRank, gives_the_same_bits_in_place_and_over_every_plan_of_one_order) {
  const Shape s{70, 31, 3};
  const std::vector<float> x = input<float>(s.count());
  std::vector<float> y(s.count()), z = x;
  ASSERT_EQ(reduce(s, x, y, "a", "/allgather"), MPI_SUCCESS);
  ASSERT_EQ(
      MPIQ_Allreduce(
          MPI_IN_PLACE, z.data(), static_cast<MPI_Count>(z.size()), MPI_FLOAT, MPI_SUM, comm,
          Info{{"mpiq_method", s.method() + "/allgather"}, {"mpiq_key", "b"}, {"mpiq_matrix", s.matrix()}}),
      MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, z));
  for (const char* const plan : {"/direct", "/ring", "/halving_doubling", ""}) {
    ASSERT_EQ(reduce(s, x, y, "c", plan), MPI_SUCCESS) << plan;
    EXPECT_TRUE(same_on_all_ranks(y)) << plan;
  }
}

TEST_F(LowRank, passes_on_what_is_not_finite_where_it_is_and_keeps_its_residual) {
  const Shape s{40, 25, 2};
  const std::vector<float> good = input<float>(s.count());
  std::vector<float> y(s.count());
  ASSERT_EQ(reduce(s, good, y), MPI_SUCCESS);
  if (size == 1) return;
  const std::vector<float> before = residual<float>(s);
  for (const float hostile : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::max()}) {
    std::vector<float> x = good;
    if (rank == size - 1) x[77] = hostile;
    ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y));
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(std::isfinite(y[i]), i != 77 || hostile == std::numeric_limits<float>::max()) << i;
    for (const float v : residual<float>(s)) ASSERT_TRUE(std::isfinite(v));
    if (!std::isfinite(hostile)) {
      EXPECT_TRUE(same_bits(residual<float>(s), before));
    }
  }
}

TEST_F(LowRank, serves_matrices_of_every_scale) {
  const Shape s{40, 25, 3};
  for (const double scale : {1e-35, 1e-20, 1e20, 1e35}) {
    std::vector<float> x = of_rank<float>(s, 2);
    for (float& v : x) v *= static_cast<float>(scale);
    const std::vector<double> exact = sum_of(x);
    std::vector<float> y(s.count());
    MPIQ_Residual_reset(comm, "k");
    for (int call = 0; call < 2; ++call) {
      ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
      EXPECT_LT(relative_error(std::vector<double>(y.begin(), y.end()), exact), tolerance<float>(s, size))
          << scale;
    }
  }
  const std::vector<float> zeros(s.count());
  std::vector<float> y(s.count(), 1.0F);
  MPIQ_Residual_reset(comm, "k");
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(reduce(s, zeros, y), MPI_SUCCESS);
    for (const float v : y) ASSERT_EQ(v, 0.0F);
  }
  // Zeros have not spoiled the basis.
  const std::vector<float> x = of_rank<float>(s, 2);
  ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
  EXPECT_LT(relative_error(std::vector<double>(y.begin(), y.end()), sum_of(x)), tolerance<float>(s, size));
}

TEST_F(LowRank, has_the_same_bits_on_ranks_with_another_floating_point_mode) {
  const Shape s{40, 25, 2};
  const std::vector<float> x = input<float>(s.count());
  std::vector<float> y(s.count());
  const int mode = std::fegetround();
  if (rank % 2 == 1) std::fesetround(FE_UPWARD);
  const int code = reduce(s, x, y);
  EXPECT_EQ(std::fegetround(), rank % 2 == 1 ? FE_UPWARD : mode);
  std::fesetround(mode);
  ASSERT_EQ(code, MPI_SUCCESS);
  EXPECT_TRUE(same_on_all_ranks(y));
}

TEST_F(LowRank, counts_one_call_with_its_bytes) {
  if (size == 1) return;
  const Shape s{304, 200, 2};  // whole cache lines
  const std::vector<float> x = input<float>(s.count());
  std::vector<float> y(s.count());
  ASSERT_EQ(reduce(s, x, y, "k", "/allgather"), MPI_SUCCESS);
  const MPIQ_Stats before = stats();
  ASSERT_EQ(reduce(s, x, y, "k", "/allgather"), MPI_SUCCESS);
  const MPIQ_Stats after = stats();
  EXPECT_EQ(after.calls - before.calls, 1u);
  EXPECT_EQ(after.compressed_calls - before.compressed_calls, 1u);
  EXPECT_EQ(after.scheme_calls - before.scheme_calls, 1u);
  EXPECT_EQ(after.failed_calls, before.failed_calls);
  EXPECT_EQ(after.declined_calls, before.declined_calls);
  EXPECT_EQ(after.elements - before.elements, s.count());
  EXPECT_EQ(after.raw_bytes - before.raw_bytes, 4 * s.count());
  const double payload = 4.0 * static_cast<double>(s.rank * (s.m + s.n)) * (size - 1);
  EXPECT_NEAR(static_cast<double>(after.wire_bytes_sent - before.wire_bytes_sent), payload, 0.1 * payload);
  EXPECT_EQ(after.residual_bytes, 4 * (s.count() + s.m * s.rank));
}

TEST_F(LowRank, leaves_calls_that_it_cannot_serve_to_mpi_and_counts_them) {
  if (size == 1) return;
  const std::vector<float> x(600, 1.5F);
  std::vector<float> y(600);
  const auto check = [&](const Info& info, const char* what) {
    const MPIQ_Stats before = stats();
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 600, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS) << what;
    for (const float v : y) ASSERT_EQ(v, 1.5F * static_cast<float>(size));
    EXPECT_EQ(stats().declined_calls - before.declined_calls, 1u) << what;
    EXPECT_EQ(stats().compressed_calls, before.compressed_calls) << what;
  };
  check(Info{{"mpiq_method", "lowrank"}}, "no matrix, no key");
  check(Info{{"mpiq_method", "lowrank"}, {"mpiq_key", "k"}}, "no matrix");
  check(Info{{"mpiq_method", "lowrank"}, {"mpiq_matrix", "30x20"}}, "no key");
  check(Info{{"mpiq_method", "lowrank"},
             {"mpiq_key", "k"},
             {"mpiq_matrix", "30x20:30"},
             {"mpiq_method", "lowrank(rank=12)"}},
        "the factors are as many elements as the matrix");
  check(Info{{"mpiq_method", "lowrank(rank=64)"}, {"mpiq_key", "k"}, {"mpiq_matrix", "30x20"}},
        "rank above 20");
  check(Info{{"mpiq_method", "lowrank(rank=1)"}, {"mpiq_key", "k"}, {"mpiq_matrix", "600x1"}}, "a column");
  check(Info{{"mpiq_method", "lowrank(rank=1)"}, {"mpiq_key", "k"}, {"mpiq_matrix", "29x20:30"}}, "gaps");
  // Calls that do not block.
  const MPIQ_Stats before = stats();
  MPIQ_Request request;
  const Info keyless{{"mpiq_method", "lowrank"}, {"mpiq_matrix", "30x20"}};
  ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), 600, MPI_FLOAT, MPI_SUM, comm, keyless, &request),
            MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 600, MPI_FLOAT, MPI_SUM, comm, keyless, &request),
            MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  for (const float v : y) ASSERT_EQ(v, 1.5F * static_cast<float>(size));
  EXPECT_EQ(stats().declined_calls - before.declined_calls, 2u);
}

TEST_F(LowRank, takes_over_a_residual_of_another_method_but_no_estimates) {
  if (size == 1) return;
  const Shape s{40, 25, 2};
  for (const char* const method : {"onebit", "topk memory=momentum", "topk memory=ef21"}) {
    const std::vector<float> x = input<float>(s.count()), low = of_rank<float>(s, 2);
    std::vector<float> y(s.count());
    MPIQ_Residual_reset(comm, nullptr);
    for (int call = 0; call < 2; ++call)
      ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(y.size()), MPI_FLOAT, MPI_SUM, comm,
                               Info{{"mpiq_method", method}, {"mpiq_key", "k"}}),
                MPI_SUCCESS);
    const bool estimates = std::string(method).find("ef21") != std::string::npos;
    const std::vector<double> given = sum_of(low), waited = estimates ? std::vector<double>(s.count())
                                                                      : sum_of(residual<float>(s));
    ASSERT_EQ(reduce(s, low, y), MPI_SUCCESS);
    const std::vector<double> left = sum_of(residual<float>(s));
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(static_cast<double>(y[i]) + left[i], given[i] + waited[i],
                  1e-4 * (greatest(given) + greatest(waited)))
          << method;
  }
}

TEST_F(LowRank, is_chosen_by_a_policy) {
  const Shape s{300, 200, 2};
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "64K-: lowrank(rank=2)"), MPI_SUCCESS);
  const std::vector<float> x = input<float>(s.count());
  std::vector<float> y(s.count());
  const auto call = [&](const Info& info) {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(y.size()), MPI_FLOAT, MPI_SUM, comm,
                          info);
  };
  ASSERT_EQ(call(Info{{"mpiq_key", "w"}, {"mpiq_matrix", s.matrix()}}), MPI_SUCCESS);
  ASSERT_EQ(call(Info{{"mpiq_key", "w"}}), MPI_SUCCESS);
  EXPECT_EQ(stats().scheme_calls, size > 1 ? 1u : 0u);
  EXPECT_EQ(stats().declined_calls, size > 1 ? 1u : 0u);
}

TEST_F(LowRank, ranks_that_do_not_fit_together_get_an_error_and_keep_their_residuals) {
  const Shape s{40, 25, 2};
  const std::vector<float> x = input<float>(s.count());
  std::vector<float> y(s.count());
  ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
  if (size == 1) return;
  const std::vector<float> before = residual<float>(s);
  const bool odd = rank == size - 1;
  expect_error_everywhere(reduce(odd ? Shape{25, 40, 2} : s, x, y), odd ? "lowrank" : "lowrank");
  expect_error_everywhere(reduce(odd ? Shape{40, 25, 3} : s, x, y), "lowrank");
  expect_error_everywhere(reduce(s, x, y, odd ? "other" : "k"), "key #");
  expect_error_everywhere(reduce(s, x, y, "k", odd ? "/ring" : ""), "lowrank");
  const Info plain{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  const Info low{{"mpiq_method", s.method()}, {"mpiq_key", "k"}, {"mpiq_matrix", s.matrix()}};
  const Info keyless{{"mpiq_method", s.method()}, {"mpiq_matrix", s.matrix()}};
  const auto call = [&](const void* from, void* to, const Info& info) {
    return MPIQ_Allreduce(from, to, static_cast<MPI_Count>(s.count()), MPI_FLOAT, MPI_SUM, comm, info);
  };
  expect_error_everywhere(odd ? call(x.data(), y.data(), plain) : call(x.data(), y.data(), low), "onebit");
  expect_error_everywhere(odd ? call(x.data(), y.data(), keyless) : call(x.data(), y.data(), low), "lowrank");
  expect_error_everywhere(call(odd ? nullptr : x.data(), y.data(), low),
                          odd ? "sendbuf is NULL" : "invalid argument");
  expect_error_everywhere(call(odd ? y.data() : x.data(), y.data(), low),
                          odd ? "overlap" : "invalid argument");
  expect_error_everywhere(reduce(s, x, y, std::string(61, 'k').c_str()), "longer than 60 characters");
  // A key of another shape.
  std::vector<float> wide(1040);
  expect_error_everywhere(reduce(Shape{40, 26, 2}, wide, wide), "overlap");
  expect_error_everywhere(reduce(Shape{40, 26, 2}, std::vector<float>(1040), wide), "belongs to");
  EXPECT_TRUE(same_bits(residual<float>(s), before));
  ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
  int keys = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &keys), MPI_SUCCESS);
  EXPECT_EQ(keys, 2) << "failed calls have left no key behind";
}

TEST_F(LowRank, goes_on_bit_for_bit_after_residuals_are_taken_and_put_back) {
  if (size == 1) return;
  const Shape s{40, 25, 2};
  const std::vector<float> x = input<float>(s.count());
  std::vector<float> y(s.count()), z(s.count());
  for (int call = 0; call < 3; ++call) ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
  MPIQ_Residual list[2] = {MPIQ_RESIDUAL_INIT, MPIQ_RESIDUAL_INIT};
  int keys = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 2, list, &keys), MPI_SUCCESS);
  ASSERT_EQ(keys, 2);
  std::vector<std::vector<float>> kept;
  std::vector<const void*> buffers;
  for (const MPIQ_Residual& r : list) {
    kept.emplace_back(static_cast<std::size_t>(r.count));
    ASSERT_EQ(MPIQ_Residual_get(comm, r.key, 0, r.count, kept.back().data()), MPI_SUCCESS);
  }
  for (const std::vector<float>& array : kept) buffers.push_back(array.data());
  ASSERT_EQ(reduce(s, x, y), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &keys), MPI_SUCCESS);
  EXPECT_EQ(keys, 0) << "the basis goes with the residual";
  ASSERT_EQ(MPIQ_Residual_put(comm, 2, list, buffers.data()), MPI_SUCCESS);
  ASSERT_EQ(reduce(s, x, z), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, z));
  // Scaled by zero, nothing waits, and the basis is drawn anew.
  ASSERT_EQ(MPIQ_Residual_scale(comm, nullptr, 0), MPI_SUCCESS);
  const std::vector<float> low = of_rank<float>(s, 2);
  ASSERT_EQ(reduce(s, low, y), MPI_SUCCESS);
  EXPECT_LT(relative_error(std::vector<double>(y.begin(), y.end()), sum_of(low)), tolerance<float>(s, size));
  // Another rank begins with another basis, and keeps the residual.
  ASSERT_EQ(reduce(Shape{40, 25, 5}, x, y), MPI_SUCCESS);
  // A rank that alone resets its key learns from the others how many calls the key has served.
  ASSERT_EQ(rank > 0 ? MPI_SUCCESS : MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  ASSERT_EQ(reduce(Shape{40, 25, 5}, x, y), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_list(comm, 2, list, &keys), MPI_SUCCESS);
  for (const MPIQ_Residual& r : list) EXPECT_EQ(r.calls, 7u) << r.key;
}

}  // namespace
}  // namespace mq::test
