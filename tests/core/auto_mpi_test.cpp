// auto under MPI: whatever the times are, all ranks get the same bits and results within the limit, and learn
// alike. What it chooses by which times is tested on simulated networks (tests/automatic).

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class Auto : public Api {
 protected:
  // Other values in each call.
  template <class T>
  std::vector<T> vector(std::size_t n, int call_number) const {
    std::vector<T> x = input<T>(n);
    for (std::size_t i = 0; i < n; ++i)
      x[i] *= static_cast<T>(1 + (i + static_cast<std::size_t>(call_number)) % 7);
    return x;
  }

  // The relative error of a call's result. Also checks that all ranks have the same bits.
  template <class T>
  double call(const std::vector<T>& x, const std::string& method, MPI_Datatype type,
              const char* key = nullptr) {
    const Info info =
        key != nullptr ? Info{{"mpiq_method", method}, {"mpiq_key", key}} : Info{{"mpiq_method", method}};
    std::vector<T> y(x.size()), exact(x.size()), first;
    const auto n = static_cast<MPI_Count>(x.size());
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), n, type, MPI_SUM, comm, info), MPI_SUCCESS) << method;
    MPI_Allreduce(x.data(), exact.data(), static_cast<int>(n), type, MPI_SUM, comm);
    first = y;
    MPI_Bcast(first.data(), static_cast<int>(n), type, 0, comm);
    EXPECT_EQ(first, y) << method;
    return relative_error(y, exact);
  }
  template <class T>
  static double relative_error(const std::vector<T>& y, const std::vector<T>& exact) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double e = static_cast<double>(y[i]) - static_cast<double>(exact[i]);
      error += e * e;
      norm += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
    }
    return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
  }
};

TEST_F(Auto, results_are_within_the_limit_while_it_learns) {
  for (const std::string limit : {"0", "0.02", "0.3"})
    for (int i = 0; i < 120; ++i) {
      const std::size_t n = i % 3 == 0 ? 20000 : 50000;
      const double allowed = limit == "0" ? 1e-6 : std::stod(limit);
      EXPECT_LE(call(vector<float>(n, i), "auto(error=" + limit + ")", MPI_FLOAT), allowed)
          << limit << ", call " << i;
    }
  for (int i = 0; i < 60; ++i)
    EXPECT_LE(call(vector<double>(30000, i), "auto(error=0.02)", MPI_DOUBLE), 0.02) << i;
}

TEST_F(Auto, awkward_lengths_and_values_are_served) {
  const auto count = static_cast<std::size_t>(size);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, count - 1, count + 1, std::size_t{4097}})
    for (int i = 0; i < 12; ++i) EXPECT_LE(call(vector<float>(n, i), "auto(error=0.3)", MPI_FLOAT), 0.3) << n;
  std::vector<float> zeros(5000);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(call(zeros, "auto(error=0.3)", MPI_FLOAT), 0);
}

TEST_F(Auto, feedback_needs_a_key_and_is_exact_without_one) {
  for (int i = 0; i < 40; ++i)
    EXPECT_LE(call(vector<float>(30000, i), "auto(error=feedback)", MPI_FLOAT), 1e-6);
  // With a key single results may be far off; the sum of all is as near as the debt allows.
  std::vector<float> got(30000), wanted(30000), y(30000), exact(30000);
  const Info info{{"mpiq_method", "auto(error=feedback)"}, {"mpiq_key", "layer"}};
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> x = vector<float>(30000, i);
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 30000, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
    MPI_Allreduce(x.data(), exact.data(), 30000, MPI_FLOAT, MPI_SUM, comm);
    for (std::size_t n = 0; n < y.size(); ++n) {
      got[n] += y[n];
      wanted[n] += exact[n];
    }
  }
  EXPECT_LE(relative_error(got, wanted), 0.5);
}

TEST_F(Auto, requests_take_the_favourite_and_end) {
  const std::vector<float> x = vector<float>(40000, 1);
  for (int i = 0; i < 40; ++i) (void)call(x, "auto(error=0.02)", MPI_FLOAT);
  const Info info{{"mpiq_method", "auto(error=0.02)"}};
  std::vector<std::vector<float>> y(8, std::vector<float>(x.size()));
  std::vector<MPIQ_Request> requests(y.size());
  for (std::size_t r = 0; r < y.size(); ++r)
    ASSERT_EQ(MPIQ_Iallreduce(x.data(), y[r].data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM,
                              comm, info, &requests[r]),
              MPI_SUCCESS);
  std::vector<float> exact(x.size());
  MPI_Allreduce(x.data(), exact.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, comm);
  for (std::size_t r = y.size(); r-- > 0;) {
    ASSERT_EQ(MPIQ_Wait(&requests[r]), MPI_SUCCESS);
    EXPECT_LE(relative_error(y[r], exact), 0.02);
    EXPECT_TRUE(same_on_all_ranks(y[r]));
  }
}

// Non-blocking and persistent calls in flight together, completed in orders that are others on each rank: the
// ranks always agree on who reduces, all results are within the limit, and blocking calls go on to learn.
TEST_F(Auto, calls_in_flight_that_end_in_any_order_are_right) {
  constexpr std::size_t kInFlight = 6;
  std::mt19937 random(static_cast<unsigned>(17 * rank + 3));
  const Info info{{"mpiq_method", "auto(error=0.3)"}};
  const std::vector<float> x = vector<float>(40000, 1);
  const auto n = static_cast<MPI_Count>(x.size());
  std::vector<float> exact(x.size());
  MPI_Allreduce(x.data(), exact.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, comm);
  for (int i = 0; i < 30; ++i) (void)call(x, "auto(error=0.3)", MPI_FLOAT);
  std::vector<std::vector<float>> y(kInFlight, std::vector<float>(x.size()));
  std::vector<MPIQ_Request> requests(kInFlight, MPIQ_REQUEST_NULL);
  for (std::size_t r = 0; r < 2; ++r)
    ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y[r].data(), n, MPI_FLOAT, MPI_SUM, comm, info, &requests[r]),
              MPI_SUCCESS);
  for (int step = 0; step < 20; ++step) {
    for (std::size_t r = 0; r < kInFlight; ++r) {
      y[r].assign(x.size(), 0);
      ASSERT_EQ(r < 2
                    ? MPIQ_Start(&requests[r])
                    : MPIQ_Iallreduce(x.data(), y[r].data(), n, MPI_FLOAT, MPI_SUM, comm, info, &requests[r]),
                MPI_SUCCESS);
    }
    if (step % 5 == 4) {
      EXPECT_LE(call(x, "auto(error=0.3)", MPI_FLOAT), 0.3);
    }
    std::vector<std::size_t> order(kInFlight);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t r : order) {
      for (int flag = 0, tests = static_cast<int>(random() % 50); tests > 0 && !flag; --tests)
        ASSERT_EQ(MPIQ_Test(&requests[r], &flag), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&requests[r]), MPI_SUCCESS);
    }
    for (const std::vector<float>& result : y) {
      ASSERT_LE(relative_error(result, exact), 0.3) << step;
      ASSERT_TRUE(same_on_all_ranks(result)) << step;
    }
  }
  for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(MPIQ_Request_free(&requests[r]), MPI_SUCCESS);
}

// Half types are summed by their own codec, whatever auto says.
TEST_F(Auto, half_types_are_summed) {
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  const Info info{{"mpiq_method", "auto(error=0.3)"}};
  const std::vector<std::uint16_t> x(30000, 0x3f80);  // 1
  std::vector<std::uint16_t> y(x.size());
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 30000, half, MPI_SUM, comm, info), MPI_SUCCESS) << i;
    EXPECT_EQ(y[17], size == 1 ? 0x3f80 : size == 2 ? 0x4000 : size == 3 ? 0x4040 : 0x4080);
  }
}

// An error that one rank makes in a call is one on all ranks, and the calls after it go on as before: the
// ranks find that they no longer know the same.
TEST_F(Auto, after_an_error_of_one_rank_the_next_calls_are_right) {
  const std::vector<float> x = vector<float>(40000, 1);
  std::vector<float> y(x.size());
  const Info good{{"mpiq_method", "auto(error=0.3)"}}, bad{{"mpiq_method", "auto(error=nonsense)"}};
  for (int i = 0; i < 100; ++i) {
    const bool breaks = i % 25 == 20, mine = breaks && rank == size - 1;
    const int code = MPIQ_Allreduce(x.data(), y.data(), 40000, MPI_FLOAT, MPI_SUM, comm, mine ? bad : good);
    EXPECT_EQ(code == MPI_SUCCESS, !breaks) << i;
    EXPECT_LE(call(x, "auto(error=0.3)", MPI_FLOAT), 0.3);
  }
  // A missing vector, in calls that are judged and in others.
  for (int i = 0; i < 30; ++i) {
    const float* const sent = rank == size - 1 ? nullptr : x.data();
    EXPECT_NE(MPIQ_Allreduce(sent, y.data(), 40000, MPI_FLOAT, MPI_SUM, comm, good), MPI_SUCCESS);
    EXPECT_LE(call(x, "auto(error=0.3)", MPI_FLOAT), 0.3);
  }
}

// Contributions that cancel out lose far more than samples show. Three results of a method may be over the
// limit before one is judged, and that one speaks for all methods. So few are, however many calls there are.
TEST_F(Auto, few_results_of_sums_that_cancel_out_are_over_the_limit) {
  std::vector<float> x = vector<float>(60000, 3);
  MPI_Bcast(x.data(), 60000, MPI_FLOAT, 0, comm);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (rank == 0 ? 1.0F : rank == 1 ? -1.0F : 0.0F) * x[i] + 0.001F * static_cast<float>(1 + i % 7);
  int over = 0;
  for (int i = 0; i < 300; ++i) over += call(x, "auto(error=0.02)", MPI_FLOAT) > 0.02;
  EXPECT_LE(over, 20);
}

// One rank's data are such that a sample of them loses too much: MPI reduces on all ranks.
TEST_F(Auto, one_rank_with_infinite_values_makes_the_call_exact_on_all) {
  for (int i = 0; i < 60; ++i) {
    std::vector<float> x = vector<float>(30000, i);
    if (rank == size - 1 && i > 30) x.assign(x.size(), INFINITY);
    std::vector<float> y(x.size());
    const Info info{{"mpiq_method", "auto(error=0.3)"}};
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), 30000, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
    EXPECT_EQ(std::isfinite(y[0]), i <= 30) << i;
  }
}

}  // namespace
}  // namespace mq::test
