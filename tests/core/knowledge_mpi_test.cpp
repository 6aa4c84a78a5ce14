// A run that chooses by a file (MPIQ_KNOWLEDGE): the file is parsed once for all communicators, and where
// ranks share nodes its lines for those nodes count. The build writes the file: see CMakeLists.txt.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class KnowledgeOfRun : public Api {
 protected:
  std::string method_of(std::size_t bytes) const {
    for (const ChoiceSummary& summary : choice_summaries())
      if (summary.known.calls.bytes == bytes && summary.known.calls.limit.value == 0)
        return to_string(summary.known.method);
    return "no class";
  }
  static constexpr std::size_t kCount = 16384;
  const Info lossy_{{"mpiq_method", "auto(error=0.3)"}};
  const Info strict_{{"mpiq_method", "auto(error=0.001)"}};  // the file names bf16, which loses more
  // The error of a result, relative to the exact sum. All ranks call it.
  double error_of(const std::vector<float>& y, const std::vector<float>& x) const {
    const std::vector<double> mine(x.begin(), x.end());
    std::vector<double> sum(x.size());
    MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(x.size()), MPI_DOUBLE, MPI_SUM, comm);
    double off = 0, all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      off += (y[i] - sum[i]) * (y[i] - sum[i]);
      all += sum[i] * sum[i];
    }
    return std::sqrt(off / all);
  }
  static std::uint64_t compressed(MPI_Comm on) {
    MPIQ_Stats s = MPIQ_STATS_INIT;
    EXPECT_EQ(MPIQ_Comm_get_stats(on, &s), MPI_SUCCESS);
    return s.compressed_calls;
  }
  void call(MPI_Comm on, int n) const {
    const std::vector<float> x(static_cast<std::size_t>(n), 1.0F);
    std::vector<float> y(x.size());
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), n, MPI_FLOAT, MPI_SUM, on, Info{{"mpiq_method", "auto"}}),
              MPI_SUCCESS);
    EXPECT_EQ(y[0], static_cast<float>(size));
    EXPECT_TRUE(same_on_all_ranks(y));
  }
};

TEST_F(KnowledgeOfRun, is_parsed_once_for_all_threads_and_communicators) {
  std::array<const KnowledgeFile*, 4> seen{};
  std::vector<std::thread> threads;
  for (const KnowledgeFile*& by_thread : seen)
    threads.emplace_back([&by_thread] { by_thread = &knowledge_of_environment(); });
  for (std::thread& thread : threads) thread.join();
  for (const KnowledgeFile* const by_thread : seen) EXPECT_EQ(by_thread, seen[0]);
  ASSERT_TRUE(seen[0]->lines.ok()) << seen[0]->lines.status().text();
  EXPECT_EQ(seen[0]->lines->size(), 8u);
  for (int i = 0; i < 3; ++i) {
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &other);
    const Result<CommState*> state = CommState::obtain(other, CommState::Initial::environment);
    ASSERT_TRUE(state.ok()) << state.status().text();
    EXPECT_EQ((*state)->policy.knowledge, &*seen[0]->lines);
    MPI_Comm_free(&other);
  }
}

// The first call of a communicator finds the nodes, so a line that names them counts from the second on.
TEST_F(KnowledgeOfRun, the_line_for_the_nodes_counts) {
  for (int i = 0; i < 3; ++i) call(comm, 16384);
  EXPECT_EQ(method_of(65536), size == 4 ? "raw/hierarchical" : "zerorun/allgather");
  // No line names these nodes: the one without nodes counts.
  for (int i = 0; i < 3; ++i) call(comm, 262144);
  EXPECT_EQ(method_of(1 << 20), size == 4 ? "zerorun/direct" : "mpi");
}

// The same choices in the same calls, so the same bits: in blocking calls and in those that overlap.
TEST_F(KnowledgeOfRun, gives_the_same_bits_each_time) {
  const std::vector<float> x = input<float>(kCount);
  std::vector<std::vector<float>> first;
  for (int run = 0; run < 3; ++run) {
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &other);
    for (std::size_t i = 0; i < 12; ++i) {
      std::vector<float> y(kCount);
      if (i % 3 == 2) {
        MPIQ_Request request = MPIQ_REQUEST_NULL;
        ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, other, lossy_, &request),
                  MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      } else {
        ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, other, lossy_), MPI_SUCCESS);
      }
      EXPECT_TRUE(same_on_all_ranks(y)) << i;
      if (run == 0) first.push_back(y);
      EXPECT_TRUE(same_bits(y, first[i])) << "run " << run << ", call " << i;
    }
    EXPECT_EQ(compressed(other), 12u);
    MPI_Comm_free(&other);
  }
}

// The limit holds in each start of a persistent call and in each non-blocking one: if a sample of one rank's
// data loses too much, MPI reduces on all ranks, and the next call is compressed again.
TEST_F(KnowledgeOfRun, calls_that_overlap_are_exact_if_one_rank_s_data_lose_too_much) {
  std::vector<float> x = input<float>(kCount), y(kCount);
  MPIQ_Request persistent = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, lossy_, &persistent),
            MPI_SUCCESS);
  const std::vector<float> usual = x;
  for (int i = 0; i < 6; ++i) {
    const bool is_bad = i % 2 == 1;
    x = usual;
    if (is_bad && rank == size - 1) x.assign(kCount, INFINITY);
    for (const bool again : {true, false}) {
      const std::uint64_t before = compressed(comm);
      MPIQ_Request once = MPIQ_REQUEST_NULL;
      ASSERT_EQ(again ? MPIQ_Start(&persistent)
                      : MPIQ_Iallreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, lossy_, &once),
                MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(again ? &persistent : &once), MPI_SUCCESS);
      EXPECT_EQ(compressed(comm) - before, is_bad ? 0u : 1u) << i;
      EXPECT_EQ(std::isfinite(y[0]), !is_bad) << i;
    }
  }
  EXPECT_EQ(MPIQ_Request_free(&persistent), MPI_SUCCESS);
}

// The first call of a communicator finds the nodes. Then the class has another list of candidates, but the
// persistent call of before keeps its method and the limit.
TEST_F(KnowledgeOfRun, a_persistent_call_keeps_the_limit_when_the_nodes_are_known) {
  std::vector<float> x = input<float>(kCount), y(kCount), z(kCount);
  MPIQ_Request persistent = MPIQ_REQUEST_NULL, once = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, strict_, &persistent),
            MPI_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(MPIQ_Start(&persistent), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&persistent), MPI_SUCCESS);
    EXPECT_LE(error_of(y, x), 0.001) << i;
    ASSERT_EQ(MPIQ_Iallreduce(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, comm, strict_, &once),
              MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&once), MPI_SUCCESS);
    EXPECT_LE(error_of(z, x), 0.001) << i;
  }
  EXPECT_EQ(MPIQ_Request_free(&persistent), MPI_SUCCESS);
}

// Rank 0 starts the second call, by the new list, before it hears the agreement of the first. The others hear
// it first.
TEST_F(KnowledgeOfRun, ranks_judge_a_call_alike_whatever_they_have_started_meanwhile) {
  std::vector<float> x = input<float>(kCount), y(kCount), z(kCount);
  MPIQ_Request first = MPIQ_REQUEST_NULL, second = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm, strict_, &first),
            MPI_SUCCESS);
  for (const double begin_s = now_s(); rank != 0 && now_s() - begin_s < 0.5;) {
    int is_over = 0;
    ASSERT_EQ(MPIQ_Test(&first, &is_over), MPI_SUCCESS);
  }
  ASSERT_EQ(MPIQ_Iallreduce(x.data(), z.data(), kCount, MPI_FLOAT, MPI_SUM, comm, strict_, &second),
            MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Wait(&first), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Wait(&second), MPI_SUCCESS);
  EXPECT_LE(error_of(y, x), 0.001);
  EXPECT_LE(error_of(z, x), 0.001);
  EXPECT_TRUE(same_on_all_ranks(y));
}

}  // namespace
}  // namespace mq::test
