// The plan for nodes of several ranks under real MPI: which nodes the library sees, or is told of by
// MPIQ_NODE_RANKS, and what the plan then sends. The launch should come to MQ_EXPECT_NODE_RANKS ranks a node.
// If the variable is not set, it should come to MPIQ_NODE_RANKS where that divides the number of ranks. All
// codecs, requests and residuals on such nodes: the tests of those, launched with MPIQ_NODE_RANKS.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class Nodes : public Api {
 protected:
  static int number(const char* variable) {
    const char* const text = std::getenv(variable);
    return text != nullptr ? std::atoi(text) : 0;
  }
  // What the whole world comes to, and a communicator of the world's first ranks, fewer than all.
  static int per_node(int ranks) {
    const int expected = number("MQ_EXPECT_NODE_RANKS");
    return expected > 0 ? expected : told(ranks);
  }
  static int per_node_of_fewer(int ranks) {
    const int expected = number("MQ_EXPECT_NODE_RANKS");
    return expected == 0 ? told(ranks) : expected > ranks ? ranks : 1;
  }
  static int told(int ranks) {
    const int all = number("MPIQ_NODE_RANKS");
    return all > 0 && ranks % all == 0 ? all : 1;
  }
  // Bytes that a rank sends of n elements of 4 bytes, a multiple of ranks and blocks, by bf16.
  static std::uint64_t expected_bytes(std::uint64_t n, int ranks, int per_node, std::uint64_t segments) {
    const auto p = static_cast<std::uint64_t>(ranks), nodes = p / static_cast<std::uint64_t>(per_node);
    const std::uint64_t coded = 2 * (nodes - 1) + p - nodes, raw = p - nodes;
    return coded * 2 * n / p + raw * 4 * n / p + segments * (coded + raw) * sizeof(FrameHeader);
  }
  static std::uint64_t sent(MPI_Comm on) {
    MPIQ_Stats s = MPIQ_STATS_INIT;
    EXPECT_EQ(MPIQ_Comm_get_stats(on, &s), MPI_SUCCESS);
    return s.wire_bytes_sent;
  }
  // Small whole numbers, which bf16 keeps: the result is exact.
  static void sum_of_ranks(MPI_Comm on, std::size_t n) {
    int ranks = 0, mine = 0;
    MPI_Comm_size(on, &ranks);
    MPI_Comm_rank(on, &mine);
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>((i + static_cast<std::size_t>(mine)) % 8);
    ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, on,
                             Info{{"mpiq_method", "bf16/hierarchical"}}),
              MPI_SUCCESS);
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t sum = 0;
      for (int r = 0; r < ranks; ++r) sum += (i + static_cast<std::size_t>(r)) % 8;
      ASSERT_EQ(x[i], static_cast<float>(sum)) << "at " << i << " of " << n;
    }
  }
};

TEST_F(Nodes, hierarchical_sends_raw_frames_inside_nodes_and_few_encoded_ones_between) {
  if (size == 1) return;
  for (const std::uint64_t segments : {1, 7}) {
    const std::uint64_t n = segments * static_cast<std::uint64_t>(size) * kChunkBytes / sizeof(float);
    const std::uint64_t before = stats().wire_bytes_sent;
    sum_of_ranks(comm, n);
    EXPECT_EQ(stats().wire_bytes_sent - before, expected_bytes(n, size, per_node(size), segments));
  }
}

TEST_F(Nodes, half_types_go_direct) {
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  const auto n = static_cast<std::uint64_t>(size) * 4096;
  std::vector<std::uint16_t> x(n, 0x3f80);  // 1
  const std::uint64_t before = stats().wire_bytes_sent;
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), static_cast<MPI_Count>(n), half, MPI_SUM, comm,
                           Info{{"mpiq_method", "bf16/hierarchical"}}),
            MPI_SUCCESS);
  EXPECT_TRUE(same_on_all_ranks(x));
  if (size > 1) {
    EXPECT_EQ(stats().wire_bytes_sent - before, expected_bytes(n, size, 1, 1));
  }
}

TEST_F(Nodes, a_communicator_has_nodes_of_its_own) {
  if (size == 1) return;
  MPI_Comm backwards = MPI_COMM_NULL, fewer = MPI_COMM_NULL;
  MPI_Comm_split(comm, 0, -rank, &backwards);
  const auto n = static_cast<std::uint64_t>(size) * 4096;
  sum_of_ranks(backwards, n);
  EXPECT_EQ(sent(backwards), expected_bytes(n, size, per_node(size), 1));
  MPI_Comm_free(&backwards);
  // All but the last: nodes are no longer alike, or a rank alone.
  MPI_Comm_split(comm, rank == size - 1 ? MPI_UNDEFINED : 0, rank, &fewer);
  if (fewer == MPI_COMM_NULL) return;
  if (size > 2) {
    const auto m = static_cast<std::uint64_t>(size - 1) * 4096;
    sum_of_ranks(fewer, m);
    EXPECT_EQ(sent(fewer), expected_bytes(m, size - 1, per_node_of_fewer(size - 1), 1));
  }
  MPI_Comm_free(&fewer);
}

// From its second call on it knows the nodes, and begins again with the plan for them.
TEST_F(Nodes, auto_keeps_its_limit_where_ranks_share_nodes) {
  constexpr std::size_t kCount = 20000;
  std::vector<float> y(kCount), exact(kCount);
  const std::vector<float> x = input<float>(kCount);
  MPI_Allreduce(x.data(), exact.data(), kCount, MPI_FLOAT, MPI_SUM, comm);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, comm,
                             Info{{"mpiq_method", "auto(error=0.02)"}}),
              MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y)) << i;
    EXPECT_LE(relative_error(y, exact), 0.02) << i;
  }
}

// A key that was served by another plan: what its residual holds on any rank comes along.
TEST_F(Nodes, plans_share_a_residual) {
  if (size == 1) return;
  constexpr std::size_t kCount = 5000;
  std::vector<double> given(kCount), exact(kCount), got(kCount);
  std::vector<double> y(kCount);
  for (const char* plan : {"direct", "hierarchical", "allgather", "hierarchical"}) {
    const std::vector<double> x = input<double>(kCount);
    for (std::size_t i = 0; i < kCount; ++i) given[i] += x[i];
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), kCount, MPI_DOUBLE, MPI_SUM, comm,
                             Info{{"mpiq_method", std::string("onebit/") + plan}, {"mpiq_key", "w"}}),
              MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y)) << plan;
    for (std::size_t i = 0; i < kCount; ++i) got[i] += y[i];
  }
  ASSERT_EQ(MPIQ_Residual_flush(y.data(), kCount, MPI_DOUBLE, comm, "w"), MPI_SUCCESS);
  for (std::size_t i = 0; i < kCount; ++i) got[i] += y[i];
  MPI_Allreduce(given.data(), exact.data(), kCount, MPI_DOUBLE, MPI_SUM, comm);
  EXPECT_LE(relative_error(got, exact), 1e-12);
}

}  // namespace
}  // namespace mq::test
