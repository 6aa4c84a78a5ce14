// A run that chooses by a file (MPIQ_KNOWLEDGE): the file is parsed once for all communicators, and where
// ranks share nodes its lines for those nodes count. The build writes the file: see CMakeLists.txt.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <thread>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class KnowledgeOfRun : public Api {
 protected:
  std::string method_of(std::size_t bytes) const {
    for (const ChoiceSummary& summary : choice_summaries())
      if (summary.known.calls.bytes == bytes && summary.known.calls.ranks == size)
        return to_string(summary.known.method);
    return "no class";
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
  EXPECT_EQ(seen[0]->lines->size(), 4u);
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

}  // namespace
}  // namespace mq::test
