// Ranks with different policies. What the policies say is ignored on all ranks; what a call says itself is
// not.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class Differs : public Api {
 protected:
  // Before the first call of the library, which reads the environment once.
  static void SetUpTestSuite() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setenv("MPIQ_POLICY", rank == 0 ? ": onebit" : ": int8", 1);
  }
  void expect_policies_differ() const {
    MPIQ_Stats stats = MPIQ_STATS_INIT;
    ASSERT_EQ(MPIQ_Comm_get_stats(comm, &stats), MPI_SUCCESS);
    EXPECT_EQ(stats.exact_mode, MPIQ_EXACT_POLICY);
  }
};

TEST_F(Differs, floats_are_exact_and_a_method_of_the_call_is_used) {
  const std::vector<float> x(40000, 1.5F);
  std::vector<float> sum(x.size());
  for (const bool named : {false, true}) {
    const Info info{{named ? "mpiq_method" : "mpiq_seed", named ? "bf16" : "1"}};
    ASSERT_EQ(MPIQ_Allreduce(x.data(), sum.data(), 40000, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
    EXPECT_EQ(sum, std::vector<float>(x.size(), 1.5F * static_cast<float>(size)));
    MPIQ_Stats stats = MPIQ_STATS_INIT;
    ASSERT_EQ(MPIQ_Comm_get_stats(comm, &stats), MPI_SUCCESS);
    EXPECT_EQ(stats.compressed_calls, named ? 1U : 0U);
  }
  expect_policies_differ();
}

TEST_F(Differs, half_types_keep_what_their_key_left_out) {
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  const std::vector<std::uint16_t> x(40000, 0x3f81);
  std::vector<std::uint16_t> sum(x.size());
  const Info info{{"mpiq_key", "layer"}};
  ASSERT_EQ(MPIQ_Allreduce(x.data(), sum.data(), 40000, half, MPI_SUM, comm, info), MPI_SUCCESS);
  expect_policies_differ();
  int found = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &found), MPI_SUCCESS);
  EXPECT_EQ(found, 1);
}

TEST_F(Differs, different_keys_are_an_error_on_all_ranks) {
  const std::vector<float> x(40000, 1.5F);
  std::vector<float> sum(x.size());
  const Info info{{"mpiq_key", "layer " + std::to_string(rank)}};
  expect_error_everywhere(MPIQ_Allreduce(x.data(), sum.data(), 40000, MPI_FLOAT, MPI_SUM, comm, info), "key");
}

}  // namespace
}  // namespace mq::test
