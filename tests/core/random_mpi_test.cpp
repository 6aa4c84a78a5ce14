// Random rounding through the public interface: all ranks get the same bits, each call rounds anew, and a
// seed, a key and the number of its call say how, also after a restart.

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "mpi_quant/plan/plan.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

using Vector = std::vector<float>;

class Random : public Api {
 protected:
  Vector sum(MPI_Comm on, const std::string& method, const std::string& key,
             const std::string& seed = "0") const {
    const Vector x = input<float>(5000);
    Vector y(x.size());
    const Info info = key.empty() ? Info{{"mpiq_method", method}, {"mpiq_seed", seed}}
                                  : Info{{"mpiq_method", method}, {"mpiq_key", key}, {"mpiq_seed", seed}};
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, on, info), MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y)) << method << " " << key;
    return y;
  }
  std::vector<Vector> sums(MPI_Comm on, int calls, const std::string& key,
                           const std::string& seed = "0") const {
    std::vector<Vector> all;
    for (int call = 0; call < calls; ++call) all.push_back(sum(on, "int4(round=stochastic)", key, seed));
    return all;
  }
};

// A communicator with the same ranks.
class Copy {
 public:
  explicit Copy(MPI_Comm comm) { MPI_Comm_dup(comm, &comm_); }
  ~Copy() { MPI_Comm_free(&comm_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  operator MPI_Comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

TEST_F(Random, each_call_rounds_anew_and_all_ranks_alike_over_every_plan) {
  if (size == 1) return;
  for (const PlanRow& plan : plans())
    for (const std::string codec : {"int8(round=stochastic)", "int4(round=stochastic)", "qsgd"}) {
      const std::string method = codec + "/" + std::string(plan.name);
      EXPECT_FALSE(same_bits(sum(comm, method, ""), sum(comm, method, ""))) << method;
      EXPECT_FALSE(same_bits(sum(comm, method, method), sum(comm, method, method))) << method;
    }
}

TEST_F(Random, a_key_has_the_numbers_of_the_seed_and_of_its_own_calls) {
  if (size == 1) return;
  const Copy other(comm);
  const auto expected = sums(comm, 3, "k");
  (void)sum(other, "qsgd", "");  // calls in between change nothing
  (void)sum(other, "qsgd", "another");
  EXPECT_EQ(expected, sums(other, 3, "k"));
  ASSERT_EQ(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  EXPECT_EQ(expected, sums(comm, 3, "k")) << "from the start again";
  EXPECT_NE(expected[0], sums(comm, 1, "l")[0]) << "another key";
  ASSERT_EQ(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  EXPECT_NE(expected[0], sums(comm, 1, "k", "18446744073709551615")[0]) << "another seed";
}

TEST_F(Random, a_restored_residual_goes_on_with_the_same_numbers) {
  if (size == 1) return;
  (void)sums(comm, 2, "k");
  MPIQ_Residual saved = MPIQ_RESIDUAL_INIT;
  int n = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 1, &saved, &n), MPI_SUCCESS);
  ASSERT_EQ(n, 1);
  EXPECT_EQ(saved.calls, 2u);
  Vector elements(5000);
  ASSERT_EQ(MPIQ_Residual_get(comm, "k", 0, 5000, elements.data()), MPI_SUCCESS);
  const auto expected = sums(comm, 2, "k");
  const Copy restarted(comm);
  const void* const buffer = elements.data();
  ASSERT_EQ(MPIQ_Residual_put(restarted, 1, &saved, &buffer), MPI_SUCCESS);
  EXPECT_EQ(expected, sums(restarted, 2, "k"));
  saved.calls = static_cast<std::uint64_t>(rank);
  expect_error_everywhere(MPIQ_Residual_put(restarted, 1, &saved, &buffer), "calls");
}

TEST_F(Random, ranks_with_different_seeds_use_the_greatest) {
  if (size == 1) return;
  const auto expected = sums(comm, 1, "k", std::to_string(size + 6));
  ASSERT_EQ(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  EXPECT_EQ(expected, sums(comm, 1, "k", std::to_string(rank + 7)));
}

TEST_F(Random, groups_that_reduce_side_by_side_have_different_errors) {
  if (size < 4) return;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank < 2 ? 0 : 1, rank, &group);
  const Vector x(5000, 0.3F);  // the same on all ranks
  for (const Info& info :
       {Info{{"mpiq_method", "natural"}}, Info{{"mpiq_method", "natural"}, {"mpiq_key", "k"}}}) {
    Vector y(x.size()), first;
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, group, info), MPI_SUCCESS);
    first = y;
    MPI_Bcast(first.data(), 5000, MPI_FLOAT, 0, comm);
    EXPECT_EQ(rank < 2, first == y);
  }
  MPI_Comm_free(&group);
}

TEST_F(Random, a_seed_comes_from_the_info_else_from_the_rule_else_from_the_environment) {
  if (size == 1) return;
  const Copy other(comm);
  ASSERT_EQ(MPIQ_Comm_set_policy(other, ": int4(round=stochastic) seed=5"), MPI_SUCCESS);
  const Vector x = input<float>(5000);
  const auto by_rule = [&](const Info& info) {
    Vector y(x.size());
    (void)MPIQ_Residual_reset(other, "k");
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), 5000, MPI_FLOAT, MPI_SUM, other, info), MPI_SUCCESS);
    return y;
  };
  EXPECT_EQ(by_rule({{"mpiq_key", "k"}}), sums(comm, 1, "k", "5")[0]);
  ASSERT_EQ(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  EXPECT_EQ(by_rule({{"mpiq_key", "k"}, {"mpiq_seed", "9"}}), sums(comm, 1, "k", "9")[0]);
}

TEST_F(Random, a_seed_that_is_no_number_is_an_error) {
  std::vector<float> x(10), y(10);
  for (const char* const bad : {"x", "-1", "1.5", "7 ", "18446744073709551616"}) {
    const Info info{{"mpiq_method", "qsgd"}, {"mpiq_seed", bad}};
    const int code = MPIQ_Allreduce(x.data(), y.data(), 10, MPI_FLOAT, MPI_SUM, comm, info);
    expect_error_everywhere(code, "mpiq_seed");
  }
}

}  // namespace
}  // namespace mq::test
