// lowrank in requests: the bits of blocking calls, in any number and order of completion, beside other calls;
// what does not fit together; and no allocation once a call has been made before.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/core/requests.hpp"

namespace mq::test {
namespace {

// lowrank is several sums: requests reach their second one at different times on different ranks.
class LowRankRequests : public Requests {
 protected:
  static constexpr std::size_t kRows = 40, kColumns = 25, kCount = kRows * kColumns;
  static constexpr int kFactors = 2 * (kRows + kColumns);
  struct LowRank : Info {
    explicit LowRank(const std::string& key, const std::string& matrix = "40x25",
                     const std::string& rank = "2")
        : Info{{"mpiq_method", "lowrank(rank=" + rank + ")"}, {"mpiq_key", key}, {"mpiq_matrix", matrix}} {}
  };
  MPIQ_Request init(const std::vector<float>& x, std::vector<float>& y, MPI_Info info) const {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    EXPECT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM,
                                  comm, info, &request),
              MPI_SUCCESS);
    return request;
  }
  std::vector<float> residual(const char* key) const {
    std::vector<float> e(kCount);
    EXPECT_EQ(MPIQ_Residual_get(comm, key, 0, kCount, e.data()), MPI_SUCCESS);
    return e;
  }
};

TEST_F(LowRankRequests, give_the_bits_residuals_and_counts_of_blocking_calls) {
  const LowRank a("blocking"), b("once"), c("again");
  const std::vector<float> x = input<float>(kCount);
  std::vector<float> y(kCount), z(kCount);
  MPIQ_Request again = init(x, z, c);
  for (int round = 0; round < 4; ++round) {
    const std::vector<float> expected = blocking(x, a);
    const MPIQ_Stats before = stats();
    MPIQ_Request once = start(x, y, b, comm);
    ASSERT_EQ(MPIQ_Start(&again), MPI_SUCCESS);
    for (int flag = 0; flag == 0;) ASSERT_EQ(MPIQ_Test(&again, &flag), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&once), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(y, expected)) << round;
    EXPECT_TRUE(same_bits(z, expected)) << round;
    EXPECT_TRUE(same_on_all_ranks(y));
    if (size == 1) continue;
    EXPECT_TRUE(same_bits(residual("once"), residual("blocking")));
    EXPECT_TRUE(same_bits(residual("again"), residual("blocking")));
    const MPIQ_Stats after = stats();
    EXPECT_EQ(after.calls - before.calls, 2u);
    EXPECT_EQ(after.scheme_calls - before.scheme_calls, 2u);
    EXPECT_EQ(after.compressed_calls - before.compressed_calls, 2u);
    EXPECT_EQ(after.elements - before.elements, 2 * kCount);
    EXPECT_EQ(after.failed_calls + after.declined_calls, 0u);
    EXPECT_LT(after.wire_bytes_sent - before.wire_bytes_sent, 2 * 4 * 2 * kFactors + 2000u);
  }
  ASSERT_EQ(MPIQ_Request_free(&again), MPI_SUCCESS);
}

TEST_F(LowRankRequests, any_number_in_flight_completed_in_any_order_with_other_calls_between) {
  constexpr std::size_t kMany = 45;  // more than there are windows of tags
  const Info onebit{{"mpiq_method", "onebit"}}, exact{{"mpiq_method", "mpi"}};
  std::vector<std::vector<float>> x, expected, y(kMany, std::vector<float>(kCount));
  std::vector<MPIQ_Request> requests;
  const auto info_of = [](std::size_t i, const char* name) {
    return LowRank(name + std::to_string(i), i % 2 == 0 ? "40x25" : "10x100", std::to_string(1 + i % 3));
  };
  for (std::size_t i = 0; i < kMany; ++i) {
    x.push_back(
        make_input<float>(Input::normal, kCount, seed() + 100 * i + static_cast<std::uint64_t>(rank)));
    expected.push_back(i % 5 == 3   ? blocking(x[i], onebit)
                       : i % 5 == 4 ? blocking(x[i], exact)
                                    : blocking(x[i], info_of(i, "blocking ")));
  }
  if (size > 1) x[7][77] = std::numeric_limits<float>::infinity();  // then there is a third sum
  expected[7] = blocking(x[7], info_of(7, "infinite "));
  EXPECT_EQ(std::isfinite(expected[7][77]), size == 1);
  for (std::size_t i = 0; i < kMany; ++i) {
    requests.push_back(i % 5 == 3   ? start(x[i], y[i], onebit, comm)
                       : i % 5 == 4 ? start(x[i], y[i], exact, comm)
                                    : start(x[i], y[i], info_of(i, "request "), comm));
    if (i % 17 != 5) continue;
    EXPECT_TRUE(same_bits(blocking(x[0], info_of(0, ("between " + std::to_string(i)).c_str())), expected[0]));
  }
  for (std::size_t k = 0; k < kMany; ++k) {  // each rank in an order of its own
    const std::size_t i = (k * 7 + static_cast<std::size_t>(rank) * 13) % kMany;
    int flag = 0;
    if (k % 3 == 0) {
      ASSERT_EQ(MPIQ_Test(&requests[i], &flag), MPI_SUCCESS);
    }
    ASSERT_EQ(MPIQ_Wait(&requests[i]), MPI_SUCCESS);
  }
  for (std::size_t i = 0; i < kMany; ++i) EXPECT_TRUE(same_bits(y[i], expected[i])) << i;
}

TEST_F(LowRankRequests, meet_blocking_calls_and_means_are_divided) {
  const Info mean{
      {"mpiq_method", "lowrank(rank=2)"}, {"mpiq_key", "k"}, {"mpiq_matrix", "40x25"}, {"mpiq_op", "avg"}};
  const std::vector<float> x(kCount, 3.0F);
  std::vector<float> y(kCount);
  if (rank == 0) {
    y = blocking(x, mean);
  } else {
    MPIQ_Request request = start(x, y, mean, comm);
    EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  }
  EXPECT_TRUE(same_on_all_ranks(y));
  for (const float v : y) ASSERT_NEAR(v, 3.0F, 1e-4F);
}

TEST_F(LowRankRequests, that_do_not_fit_together_are_errors_on_all_ranks) {
  if (size == 1) return;
  const bool odd = rank == size - 1;
  const LowRank info("k"), wide("k", "25x40"), third("k", "40x25", "3"), other("other");
  const Info onebit{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  const std::vector<float> x = input<float>(kCount);
  std::vector<float> y(kCount), z(kCount);
  const auto wait = [](MPIQ_Request request) { return MPIQ_Wait(&request); };
  for (const MPI_Info with : {MPI_Info(wide), MPI_Info(third), MPI_Info(other), MPI_Info(onebit)})
    expect_error_everywhere(wait(start(x, y, odd ? with : MPI_Info(info), comm)), "lowrank");
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(
      MPIQ_Iallreduce(odd ? nullptr : x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, info, &request),
      MPI_SUCCESS);
  expect_error_everywhere(MPIQ_Wait(&request), odd ? "sendbuf is NULL" : "invalid argument");
  expect_error_everywhere(
      MPIQ_Allreduce_init(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, odd ? wide : info, &request),
      "MPIQ_Allreduce_init");
  expect_error_everywhere(
      odd ? wait(start(x, y, info, comm))
          : MPIQ_Allreduce_init(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, info, &request),
      "MPIQ_Allreduce_init");
  int keys = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &keys), MPI_SUCCESS);
  EXPECT_EQ(keys, 0) << "failed calls have left no key behind";
  // A key serves one call at a time.
  request = start(x, y, info, comm);
  MPIQ_Request second = start(x, z, info, comm);
  EXPECT_NE(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  expect_error_everywhere(MPIQ_Wait(&second), "in use by a call in flight");
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  ASSERT_EQ(wait(start(x, z, info, comm)), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_reset(comm, "k"), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(blocking(x, info), y)) << "errors have left nothing behind";
}

TEST_F(LowRankRequests, started_in_different_orders_are_errors_and_a_start_allocates_nothing) {
  if (size == 1) return;
  const std::vector<float> x = input<float>(kCount);
  std::vector<float> y(kCount), z(kCount);
  MPIQ_Request pair[2]{init(x, y, LowRank("the first of two long names")), init(x, z, LowRank("b", "25x40"))};
  const int first = rank == 0 ? 0 : 1;
  ASSERT_EQ(MPIQ_Start(&pair[first]), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Start(&pair[1 - first]), MPI_SUCCESS);
  for (MPIQ_Request& r : pair) expect_error_everywhere(MPIQ_Wait(&r), "lowrank");
  for (int round = 0; round < 3; ++round) {  // started alike they work again
    const std::size_t before = allocations;
    for (MPIQ_Request& r : pair) ASSERT_EQ(MPIQ_Start(&r), MPI_SUCCESS);
    for (MPIQ_Request& r : pair) ASSERT_EQ(MPIQ_Wait(&r), MPI_SUCCESS);
    if (round > 0) {
      EXPECT_EQ(allocations, before);
    }
  }
  for (MPIQ_Request& r : pair) ASSERT_EQ(MPIQ_Request_free(&r), MPI_SUCCESS);
  const LowRank info("a blocking call's long name");
  (void)blocking(x, info);
  const std::size_t before = allocations;
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace mq::test
