// The guard's judgement of a call alone: over the budget of the rule, or further from the exact sum than the
// method promises. What a rule does after it is tested by programs under the preload library (tests/preload).

#include "mpi_quant/core/guard.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mpi_quant/core/group_call.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

constexpr double kPromised = 0x1p-10;

class GuardJudgement : public Api {
 protected:
  // The judgement of a result that is `apart` from the exact sum in its last element, on the last rank alone.
  template <class T>
  GuardResult judge(double apart, double promised, double budget = 0) {
    return judge_sum_of(input<T>(1000), apart, promised, budget);
  }
  template <class T>
  GuardResult judge_sum_of(const std::vector<T>& x, double apart, double promised, double budget = 0) {
    std::vector<T> sum(x.size());
    MPI_Allreduce(x.data(), sum.data(), 1000, type<T>(), MPI_SUM, comm);
    std::vector<T> y = sum;
    if (rank == size - 1) y.back() = static_cast<T>(y.back() + apart);
    const Call call{x.data(), y.data(), 1000, type<T>(), MPI_SUM, comm};
    GuardedCall guarded;
    EXPECT_TRUE(
        guarded
            .prepare(call, sizeof(T) == 4 ? kernels::Element::f32 : kernels::Element::f64, nullptr, nullptr)
            .ok());
    Outcome ran;
    ran.ran = true;
    ran.promised = promised;
    const Result<GuardResult> judged = guarded.judge(call, ran, budget, false);
    EXPECT_TRUE(judged.ok());
    if (!judged.ok()) return {};
    if (judged->given_up) {
      EXPECT_EQ(y, sum) << "the exact sum is delivered";
    }
    EXPECT_EQ(judged->given_up, judged->replaced);
    return *judged;
  }
  template <class T>
  static MPI_Datatype type() {
    return sizeof(T) == 4 ? MPI_FLOAT : MPI_DOUBLE;
  }
};

TEST_F(GuardJudgement, a_result_within_the_promise_is_kept) {
  for (const double apart : {0.0, kPromised, -kPromised}) {
    EXPECT_FALSE(judge<double>(apart, kPromised).given_up) << apart;
    EXPECT_FALSE(judge<float>(apart, kPromised).given_up) << apart;
  }
}

TEST_F(GuardJudgement, a_result_beyond_the_promise_is_given_up_on_all_ranks) {
  for (const double apart : {1.01 * kPromised, -1.01 * kPromised, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    EXPECT_TRUE(judge<double>(apart, kPromised).given_up) << apart;
  EXPECT_TRUE(judge<float>(2 * kPromised, kPromised).given_up);
}

TEST_F(GuardJudgement, what_a_program_treats_as_0_breaks_no_promise) {
  const float tiny = std::numeric_limits<float>::min();
  const std::vector<float> x(1000, tiny / 4);
  EXPECT_FALSE(judge_sum_of(x, size * tiny / 4, 1e-42).given_up);
  EXPECT_TRUE(judge_sum_of(x, 8 * size * tiny, 1e-42).given_up);
}

TEST_F(GuardJudgement, a_sum_that_only_one_order_of_additions_overflows_breaks_no_promise) {
  std::vector<double> x(1000, 0.0);
  x.back() = rank == 0 ? std::numeric_limits<double>::max() : rank == 1 ? -1.0 : 0.0;
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(judge_sum_of(x, infinite, kPromised).given_up, size == 1);
}

// A residual has the unit of the vectors, so the residual of a mean is divided, too.
TEST_F(GuardJudgement, what_is_delivered_for_a_mean_is_the_mean_of_the_inputs_and_residuals) {
  Residuals residuals;
  const Result<Residuals::Entry*> entry =
      residuals.acquire("k", 1000, kernels::Element::f32, 1, nullptr, nullptr);
  ASSERT_TRUE(entry.ok());
  auto* const waiting = reinterpret_cast<float*>((*entry)->data());
  std::fill_n(waiting, 1000, 2.0F);
  const std::vector<float> x(1000, static_cast<float>(rank));
  std::vector<float> y(1000, -7.0F);
  Call call{x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, comm};
  call.divisor = size;
  GuardedCall guarded;
  ASSERT_TRUE(guarded.prepare(call, kernels::Element::f32, *entry, nullptr).ok());
  Outcome ran;
  ran.ran = true;
  const Result<GuardResult> judged = guarded.judge(call, ran, 1e-6, true);
  ASSERT_TRUE(judged.ok());
  EXPECT_TRUE(judged->given_up);
  for (const float v : y) ASSERT_NEAR(v, (size - 1) / 2.0 + 2, 1e-5);
}

// A sum of few elements may be 0 in one order of additions only. A vector so short travels as it is.
TEST_F(GuardJudgement, a_short_vector_of_a_group_that_cancels_has_lost_nothing) {
  if (size == 1) return;
  for (const std::size_t shortest : {0, 64}) {
    std::vector<float> x(1000, 1), y(1000, static_cast<float>(size)), few(3), sum(3, 1e-8F);
    std::fill(few.begin(), few.end(), rank == 0 ? 1.0F : rank == 1 ? -1.0F : 0.0F);
    const void* const in[]{x.data(), few.data()};
    void* const out[]{y.data(), sum.data()};
    const MPI_Count counts[]{1000, 3};
    GroupCall group;
    const Call call = group_call({2, in, out, counts, nullptr}, MPI_FLOAT, MPI_SUM, comm, group);
    GuardedCall guarded;
    ASSERT_TRUE(guarded.prepare_alone(call, kernels::Element::f32, shortest).ok());
    Outcome ran;
    ran.ran = true;
    const Result<GuardResult> judged = guarded.judge(call, ran, 0.01, false);
    ASSERT_TRUE(judged.ok());
    EXPECT_EQ(judged->given_up, shortest == 0);
  }
}

TEST_F(GuardJudgement, without_a_promise_and_a_budget_nothing_is_given_up) {
  EXPECT_FALSE(judge<double>(1, 0).given_up);
}

TEST_F(GuardJudgement, the_budget_counts_beside_the_promise) {
  EXPECT_TRUE(judge<double>(kPromised, kPromised, 1e-12).given_up);
  EXPECT_FALSE(judge<double>(kPromised, kPromised, 1).given_up);
}

}  // namespace
}  // namespace mq::test
