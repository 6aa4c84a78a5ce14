// Facts of the whole vector through the public interface: bound(rel=R) measures the vectors of all ranks in
// each call, also with a key, and every result is within R times the greatest magnitude that any rank
// brought.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "mpi_quant/plan/plan.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

using Vector = std::vector<double>;

class Facts : public Api {
 protected:
  Vector sum(const Vector& x, const std::string& method, const std::string& key = "") const {
    Vector y(x.size());
    const Info info =
        key.empty() ? Info{{"mpiq_method", method}} : Info{{"mpiq_method", method}, {"mpiq_key", key}};
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM, comm, info),
              MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y)) << method;
    return y;
  }
  // The greatest error of `method` on a vector, as a share of the greatest magnitude of all ranks.
  double error(const Vector& x, const std::string& method, const std::string& key = "") const {
    Vector exact(x.size());
    MPI_Allreduce(x.data(), exact.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM, comm);
    double most = 0, all = 0, worst = 0;
    for (const double v : x) most = std::isfinite(v) ? std::max(most, std::abs(v)) : most;
    MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, comm);
    const Vector got = sum(x, method, key);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(exact[i]))
        worst = std::max(worst, std::abs(got[i] - exact[i]));
      else
        EXPECT_FALSE(std::isfinite(got[i])) << i;
    }
    return all > 0 ? worst / all : worst;
  }
  // Vectors whose greatest magnitude only the last rank has.
  Vector vector(double scale) const {
    Vector x = input<double>(5000);
    for (double& v : x) v *= scale;
    if (rank == size - 1) x[1234] = 50 * scale;
    return x;
  }
};

TEST_F(Facts, every_result_is_within_the_share_of_the_greatest_magnitude_over_every_plan) {
  if (size == 1) return;
  for (const PlanRow& plan : plans())
    for (const double rel : {1e-2, 1e-5, 1e-10}) {
      const std::string method =
          "bound(rel=" + std::to_string(rel * 1e10) + "e-10)/" + std::string(plan.name);
      const double got = error(vector(1), method);
      EXPECT_LE(got, rel * (1 + 1e-6)) << method;
      EXPECT_GE(got, rel / 64) << method << " is far more exact than was asked";
    }
}

TEST_F(Facts, of_each_call_are_measured_anew_also_with_a_key) {
  if (size == 1) return;
  for (const double scale : {1.0, 1e-6, 1e9, 0.0, 1e-200, 1e200})
    EXPECT_LE(error(vector(scale), "bound(rel=1e-4)"), 1.001e-4) << scale;
  // Residuals of the call before are small beside the next vector.
  for (const double scale : {1e-200, 1e-6, 1.0, 1e9, 1e200})
    EXPECT_LE(error(vector(scale), "bound(rel=1e-4)", "k"), 1.001e-4) << scale;
}

TEST_F(Facts, of_a_persistent_request_are_measured_at_each_start) {
  if (size == 1) return;
  for (const std::string key : {"", "p"}) {
    Vector x(5000), y(5000);
    const Info info = key.empty() ? Info{{"mpiq_method", "bound(rel=1e-4)"}}
                                  : Info{{"mpiq_method", "bound(rel=1e-4)"}, {"mpiq_key", key}};
    MPIQ_Request request{};
    ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 5000, MPI_DOUBLE, MPI_SUM, comm, info, &request),
              MPI_SUCCESS);
    for (const double scale : {1e-9, 1.0, 1e9}) {
      const Vector values = vector(scale);
      std::copy(values.begin(), values.end(), x.begin());  // the request has the address of x
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      Vector exact(5000);
      MPI_Allreduce(x.data(), exact.data(), 5000, MPI_DOUBLE, MPI_SUM, comm);
      double worst = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(y[i] - exact[i]));
      EXPECT_LE(worst, 1.001e-4 * 50 * scale) << scale << key;
      EXPECT_GE(worst, 1e-6 * scale) << scale << key << " is far more exact than was asked";
    }
    ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  }
}

TEST_F(Facts, do_not_count_what_is_not_finite) {
  if (size == 1) return;
  Vector x = vector(1);
  if (rank == 0) x[7] = std::numeric_limits<double>::infinity();
  if (rank == size - 1) x[8] = std::nan("");
  EXPECT_LE(error(x, "bound(rel=1e-4)"), 1.001e-4);
}

TEST_F(Facts, of_vectors_too_small_for_a_step_let_everything_pass) {
  if (size == 1) return;
  EXPECT_LE(error(vector(1e-306), "bound(rel=1e-4)"), 1e-15) << "the rounding of an ordinary sum";
}

TEST_F(Facts, of_overflows_are_in_the_statistics) {
  if (size == 1) return;
  const std::vector<float> x(100, rank == 0 ? 1e6F : 1.0F);
  std::vector<float> y(100);
  const auto overflows = [&](const char* method) {
    const std::uint64_t before = stats().overflows;
    EXPECT_EQ(
        MPIQ_Allreduce(x.data(), y.data(), 100, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", method}}),
        MPI_SUCCESS);
    return stats().overflows - before;
  };
  EXPECT_EQ(overflows("f16/allgather"), rank == 0 ? 100u : 0u);
  EXPECT_TRUE(std::isinf(y[0]));
  EXPECT_EQ(overflows("f16(scale=block)/allgather"), 0u);
  EXPECT_NEAR(static_cast<double>(y[0]), 1e6 + size - 1, 1e6 * 0x1p-11);
}

TEST_F(Facts, of_doubles_that_are_infinite_as_bf16_are_in_the_statistics) {
  if (size == 1) return;
  Vector x(100, 1.0);
  if (rank == 0) x[7] = 1e300, x[8] = -1e39;
  const std::uint64_t before = stats().overflows;
  const Vector y = sum(x, "bf16/allgather");
  EXPECT_EQ(stats().overflows - before, rank == 0 ? 2u : 0u);
  EXPECT_TRUE(std::isinf(y[7]) && std::isinf(y[8]));
  EXPECT_EQ(y[9], size);
}

TEST_F(Facts, of_chunks_of_fft_that_are_too_large_are_in_the_statistics) {
  if (size == 1) return;
  std::vector<float> x(4096, 1.0F), y(4096);
  if (rank == 0) x[7] = 1e38F;
  for (const bool keyed : {false, true}) {
    const std::uint64_t before = stats().overflows;
    const Info plain{{"mpiq_method", "fft/allgather"}};
    const Info named{{"mpiq_method", "fft/allgather"}, {"mpiq_key", "chunk"}};
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 4096, MPI_FLOAT, MPI_SUM, comm, keyed ? named : plain),
              MPI_SUCCESS);
    EXPECT_EQ(stats().overflows - before, rank != 0 ? 0u : keyed ? 1u : 4096u);
    EXPECT_EQ(std::isnan(y[9]), !keyed);
  }
}

TEST_F(Facts, of_unequal_ranks_give_threshold_the_greatest_quantile_of_any_rank) {
  if (size == 1) return;
  // The quantile of rank r is 2^r. Each rank sends what reaches the quantile of the last rank, and all decode
  // to it.
  const double own = std::ldexp(1.0, rank), greatest = std::ldexp(1.0, size - 1);
  for (const char* const key : {"", "measured once"}) {
    Vector x(1000, own);
    x[5] = 3 * greatest;
    const Vector y = sum(x, "threshold(quantile=0.5)/allgather", key);
    EXPECT_EQ(y[5], size * greatest) << "every rank sends it, as the greatest tau";
    EXPECT_EQ(y[6], greatest) << "the last rank alone sends it";
  }
}

TEST_F(Facts, differ_in_what_is_asked_is_an_error) {
  if (size == 1) return;
  const Vector x = vector(1);
  Vector y(x.size());
  const Info info{{"mpiq_method", rank == 0 ? "bound(rel=1e-4)" : "bound(rel=1e-5)"}};
  expect_error_everywhere(
      MPIQ_Allreduce(x.data(), y.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM, comm, info),
      "parameters");
}

}  // namespace
}  // namespace mq::test
