// Memory rules through the public interface, under real MPI: what each rule conserves over calls, its arrays,
// and errors of ranks whose rules do not fit together.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/memory.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class MemoryRules : public Api {
 protected:
  int reduce(const std::vector<float>& x, std::vector<float>& y, const std::string& method,
             const std::string& key = "w") const {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, comm,
                          Info{{"mpiq_method", method}, {"mpiq_key", key}});
  }
  std::vector<float> arrays(std::size_t n, const std::string& key = "w") const {
    std::vector<float> values(n);
    EXPECT_EQ(MPIQ_Residual_get(comm, key.c_str(), 0, static_cast<MPI_Count>(n), values.data()), MPI_SUCCESS);
    return values;
  }
  // The sums over ranks, in double.
  std::vector<double> sum(const std::vector<double>& mine) const {
    std::vector<double> all(mine.size());
    MPI_Allreduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_SUM, comm);
    return all;
  }
  std::vector<float> vector_of_call(std::size_t n, int call) const {
    return make_input<float>(Input::normal, n, seed() + static_cast<std::uint64_t>(10 * call + rank));
  }
};

constexpr std::size_t kN = 20000;
constexpr const char* kPlans[]{"", "/direct", "/allgather", "/recursive_doubling"};

TEST_F(MemoryRules, every_rule_of_the_table_gives_all_ranks_the_same_bits) {
  for (const kernels::MemoryRule& rule : kernels::memory_rules())
    for (const char* const codec : {"onebit", "topk", "bound(abs=1e-3)", "int8"})
      for (const char* const plan : kPlans) {
        // It is no contraction.
        if (rule.keeps_estimates && std::string(codec).starts_with("bound")) continue;
        const std::string method = std::string(codec) + plan + " memory=" + std::string(rule.name);
        std::vector<float> y(kN);
        for (int call = 0; call < 3; ++call) {
          ASSERT_EQ(reduce(vector_of_call(kN, call), y, method, method), MPI_SUCCESS) << method;
          ASSERT_TRUE(same_on_all_ranks(y)) << method;
        }
      }
}

TEST_F(MemoryRules, decay_keeps_the_sum_of_vectors_and_decayed_residuals) {
  if (size == 1) return;
  for (const char* const plan : kPlans) {
    const std::string method = std::string("topk(k=0.05)") + plan + " memory=decay(beta=0.5)", key = method;
    std::vector<float> y(kN);
    std::vector<double> before(kN);
    for (int call = 0; call < 3; ++call) {
      const std::vector<float> x = vector_of_call(kN, call);
      ASSERT_EQ(reduce(x, y, method, key), MPI_SUCCESS);
      const std::vector<float> e = arrays(kN, key);
      std::vector<double> given(kN), left(e.begin(), e.end());
      for (std::size_t i = 0; i < kN; ++i) given[i] = static_cast<double>(x[i]) + 0.5 * before[i];
      before = left;
      given = sum(given), left = sum(left);
      for (std::size_t i = 0; i < kN; ++i)
        ASSERT_NEAR(static_cast<double>(y[i]) + left[i], given[i], 1e-5 * size) << method << " at " << i;
    }
  }
}

TEST_F(MemoryRules, momentum_delivers_every_momentum_and_a_flush_what_waits) {
  if (size == 1) return;
  for (const char* const plan : kPlans) {
    const std::string method = std::string("topk(k=0.05)") + plan + " memory=momentum(m=0.5,mask=off)",
                      key = method;
    std::vector<float> y(kN), waiting(kN);
    std::vector<double> u(kN), given(kN), got(kN);
    for (int call = 0; call < 4; ++call) {
      const std::vector<float> x = vector_of_call(kN, call);
      ASSERT_EQ(reduce(x, y, method, key), MPI_SUCCESS);
      for (std::size_t i = 0; i < kN; ++i) {
        u[i] = 0.5 * u[i] + static_cast<double>(x[i]);
        given[i] += u[i];
        got[i] += static_cast<double>(y[i]);
      }
    }
    const std::vector<float> both = arrays(2 * kN, key);
    for (std::size_t i = 0; i < kN; ++i) ASSERT_NEAR(static_cast<double>(both[kN + i]), u[i], 1e-5);
    ASSERT_EQ(MPIQ_Residual_flush(waiting.data(), kN, MPI_FLOAT, comm, key.c_str()), MPI_SUCCESS);
    given = sum(given);
    for (std::size_t i = 0; i < kN; ++i)
      ASSERT_NEAR(got[i] + static_cast<double>(waiting[i]), given[i], 1e-4 * size) << method << " at " << i;
    const std::vector<float> after = arrays(2 * kN, key);
    for (std::size_t i = 0; i < kN; ++i) ASSERT_EQ(after[i], 0) << "the residual was delivered";
    EXPECT_TRUE(std::equal(after.begin() + kN, after.end(), both.begin() + kN)) << "the momentum stays";
  }
}

TEST_F(MemoryRules, none_keeps_nothing_under_a_key) {
  std::vector<float> y(kN);
  ASSERT_EQ(reduce(vector_of_call(kN, 0), y, "onebit memory=none"), MPI_SUCCESS);
  int n = -1;
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &n), MPI_SUCCESS);
  EXPECT_EQ(n, 0);
  std::vector<float> again(kN);
  ASSERT_EQ(reduce(vector_of_call(kN, 0), again, "onebit memory=none"), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, again));
  // Random numbers are new in each call, as without a key.
  ASSERT_EQ(reduce(vector_of_call(kN, 0), y, "qsgd memory=none"), MPI_SUCCESS);
  ASSERT_EQ(reduce(vector_of_call(kN, 0), again, "qsgd memory=none"), MPI_SUCCESS);
  EXPECT_EQ(same_bits(y, again), size == 1);
}

TEST_F(MemoryRules, arrays_are_listed_scaled_put_and_forgotten) {
  if (size == 1) return;
  std::vector<float> y(1000);
  ASSERT_EQ(reduce(vector_of_call(1000, 0), y, "topk memory=momentum"), MPI_SUCCESS);
  MPIQ_Residual listed = MPIQ_RESIDUAL_INIT;
  int n = 1;
  ASSERT_EQ(MPIQ_Residual_list(comm, 1, &listed, &n), MPI_SUCCESS);
  ASSERT_EQ(n, 1);
  EXPECT_EQ(listed.arrays, 2);
  EXPECT_EQ(listed.count, 1000);
  EXPECT_EQ(stats().residual_bytes, 2 * 1000 * sizeof(float));
  const std::vector<float> before = arrays(2000);
  ASSERT_EQ(MPIQ_Residual_scale(comm, "w", 0.5), MPI_SUCCESS);
  const std::vector<float> scaled = arrays(2000);
  for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(scaled[i], 0.5f * before[i]);
  const void* const buffer = before.data();
  ASSERT_EQ(MPIQ_Residual_put(comm, 1, &listed, &buffer), MPI_SUCCESS);
  EXPECT_EQ(arrays(2000), before);
  float beyond = 0;
  EXPECT_NE(MPIQ_Residual_get(comm, "w", 2000, 1, &beyond), MPI_SUCCESS);
  listed.arrays = 99;
  expect_error_everywhere(MPIQ_Residual_put(comm, 1, &listed, &buffer), "99 arrays");
  ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
  EXPECT_EQ(stats().residual_bytes, 0u);
}

// A key keeps its residual when the rule of its calls changes: a warm-up may end in another rule.
TEST_F(MemoryRules, a_key_may_change_its_rule_and_nothing_is_lost) {
  if (size == 1) return;
  std::vector<float> y(kN);
  std::vector<double> given(kN), got(kN);
  for (const char* const method :
       {"topk(k=0.1)", "topk(k=0.05) memory=momentum(m=0)", "topk(k=0.01) memory=decay(beta=1)", "onebit"}) {
    const std::vector<float> x = vector_of_call(kN, 1);
    ASSERT_EQ(reduce(x, y, method), MPI_SUCCESS) << method;
    for (std::size_t i = 0; i < kN; ++i)
      given[i] += static_cast<double>(x[i]), got[i] += static_cast<double>(y[i]);
  }
  ASSERT_EQ(MPIQ_Residual_flush(y.data(), kN, MPI_FLOAT, comm, "w"), MPI_SUCCESS);
  given = sum(given);
  for (std::size_t i = 0; i < kN; ++i)
    ASSERT_NEAR(got[i] + static_cast<double>(y[i]), given[i], 1e-4 * size) << i;
}

TEST_F(MemoryRules, ranks_with_different_rules_or_parameters_get_an_error_that_names_both) {
  if (size == 1) return;
  std::vector<float> y(1000);
  const std::vector<float> x = vector_of_call(1000, 0);
  int code = reduce(x, y, rank == 0 ? "onebit memory=decay" : "onebit memory=momentum");
  expect_error_everywhere(code, "memory=decay");
  expect_error_everywhere(code, "memory=momentum");
  expect_error_everywhere(reduce(x, y, rank == 0 ? "onebit memory=decay" : "onebit"),
                          "the ranks' calls differ");
  expect_error_everywhere(reduce(x, y, rank == 0 ? "onebit memory=decay" : "onebit memory=decay(beta=0.5)"),
                          "the ranks' calls differ");
}

TEST_F(MemoryRules, a_call_that_is_refused_leaves_a_key_with_the_arrays_that_it_had) {
  if (size == 1) return;
  const std::vector<float> x = vector_of_call(1000, 0);
  std::vector<float> y(x.size());
  ASSERT_EQ(reduce(x, y, "onebit"), MPI_SUCCESS);
  const std::vector<float> residual = arrays(x.size());
  const auto n_arrays = [&] {
    MPIQ_Residual list = MPIQ_RESIDUAL_INIT;
    int n = 0;
    EXPECT_EQ(MPIQ_Residual_list(comm, 1, &list, &n), MPI_SUCCESS);
    return n == 1 ? list.arrays : -1;
  };
  expect_error_everywhere(reduce(x, y, rank == 0 ? "onebit memory=momentum" : "onebit"),
                          "the ranks' calls differ");
  EXPECT_EQ(n_arrays(), 1);
  EXPECT_EQ(arrays(x.size()), residual);
  ASSERT_EQ(reduce(x, y, "onebit memory=momentum"), MPI_SUCCESS);
  EXPECT_EQ(n_arrays(), 2);
  expect_error_everywhere(reduce(x, y, rank == 0 ? "onebit memory=momentum" : "onebit"),
                          "the ranks' calls differ");
  EXPECT_EQ(n_arrays(), 2) << "a call has used both";
}

TEST_F(MemoryRules, a_rule_that_keeps_arrays_needs_a_key) {
  if (size == 1) return;
  std::vector<float> y(1000);
  const std::vector<float> x = vector_of_call(1000, 0);
  const auto without = [&](const char* method) {
    return MPIQ_Allreduce(x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", method}});
  };
  expect_error_everywhere(without("onebit memory=momentum"), "memory=momentum needs the name of the vector");
  for (const char* const method : {"onebit memory=none", "onebit memory=carry", "onebit"})
    EXPECT_EQ(without(method), MPI_SUCCESS) << method;
}

TEST_F(MemoryRules, persistent_calls_clip_and_remember) {
  if (size == 1) return;
  std::vector<float> x = vector_of_call(kN, 0), y(kN), expected(kN);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  const std::string method = "topk memory=momentum(clip=3)";
  const Info info{{"mpiq_method", method}, {"mpiq_key", "persistent"}};
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), kN, MPI_FLOAT, MPI_SUM, comm, info, &request),
            MPI_SUCCESS);
  for (int call = 0; call < 3; ++call) {
    const std::vector<float> next = vector_of_call(kN, call);
    std::copy(next.begin(), next.end(), x.begin());  // the request keeps the address
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    ASSERT_EQ(reduce(x, expected, method, "blocking"), MPI_SUCCESS);
    ASSERT_TRUE(same_bits(y, expected)) << call;
  }
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
