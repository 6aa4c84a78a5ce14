// MPIQ_Neighbor_mix under real MPI: the iteration in closed form, what stays, the rate of consensus over
// several graphs and codecs, and calls of ranks that do not fit together.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mpi_quant.h"
#include "tests/schemes/neighbor_mix.hpp"

namespace mq::test {
namespace {

TEST_F(NeighborMix, uncompressed_is_the_iteration_in_closed_form) {
  const auto check = [&]<class T>(T) {
    for (const auto& [name, edges] : graphs())
      for (const double gamma : {1.0, 0.3}) {
        MPI_Comm graph = comm_of(edges);
        Closed<double> closed;
        for (int r = 0; r < size; ++r) {
          const std::vector<T> x = of_rank<T>(r, 100);
          closed.x.emplace_back(x.begin(), x.end());
          closed.y.push_back(1);
        }
        std::vector<T> x = of_rank<T>(rank, 100);
        double weight = 1;
        const double unit = std::numeric_limits<T>::epsilon();
        for (int round = 1; round <= 20; ++round) {
          ASSERT_EQ(mix(graph, x, weight, gamma), MPI_SUCCESS);
          closed.round(edges, gamma);
          const std::vector<double>& expected = closed.x[static_cast<std::size_t>(rank)];
          // Each round rounds a few numbers of magnitude 5 at most; the matrix amplifies no error beyond the
          // ranks.
          for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_NEAR(static_cast<double>(x[i]), expected[i], 5 * unit * 8 * size * round)
                << name << ", round " << round;
          ASSERT_NEAR(weight, closed.y[static_cast<std::size_t>(rank)], unit * 4 * size * round) << name;
        }
        MPI_Comm_free(&graph);
      }
  };
  check(float{});
  check(double{});
}

// neighbor_drift_test.cpp has thousands of rounds, without messages.
TEST_F(NeighborMix, over_many_rounds_at_rest_no_rounding_adds_up) {
  if (size == 1) return;
  MPI_Comm graph = comm_of(ring());
  std::vector<float> x = of_rank<float>(rank, 100);
  const std::vector<double> goal = mean(x);
  double weight = 1;
  for (int round = 0; round < 250; ++round) ASSERT_EQ(mix(graph, x, weight, 1), MPI_SUCCESS);
  EXPECT_LT(distance(x, weight, goal), 1e-6);
  EXPECT_NEAR(weight, 1, 1e-15 * size);
  MPI_Comm_free(&graph);
}

TEST_F(NeighborMix, sums_of_vectors_and_weights_stay) {
  constexpr int kRounds = 12;
  for (const auto& [name, edges] : graphs())
    for (const char* const method : {"raw", "int8", "topk(k=0.05)", "onebit", "qsgd(bits=8)"}) {
      MPI_Comm graph = comm_of(edges);
      std::vector<float> x = of_rank<float>(rank, 3000);
      const std::vector<double> before = mean(x);
      double weight = 1;
      for (int round = 1; round <= kRounds; ++round)
        ASSERT_EQ(mix(graph, x, weight, 0.2, method), MPI_SUCCESS) << method;
      const std::vector<double> after = mean(x);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(after[i], before[i],
                    kRounds * 8 * 5 * static_cast<double>(std::numeric_limits<float>::epsilon()))
            << name << ", " << method;
      EXPECT_NEAR(sum_of(weight), size, 1e-13 * kRounds * size) << name << ", " << method;
      MPI_Comm_free(&graph);
    }
}

TEST_F(NeighborMix, ranks_reach_consensus_at_a_linear_rate) {
  if (size == 1) return;
  struct Way {
    const char* method;
    double gamma;
    int rounds;  // after which the distance is halved, at least
  };
  for (const auto& [name, edges] : graphs())
    for (const Way& way : {Way{"raw", 1, 10}, Way{"int8", 0.5, 20}, Way{"topk(k=0.25)", 0.1, 60}}) {
      MPI_Comm graph = comm_of(edges);
      std::vector<double> x = of_rank<double>(rank, 1000);
      const std::vector<double> goal = mean(x);
      double weight = 1, last = distance(x, weight, goal);
      for (int stretch = 0; stretch < 3; ++stretch) {
        for (int round = 0; round < way.rounds; ++round)
          ASSERT_EQ(mix(graph, x, weight, way.gamma, way.method), MPI_SUCCESS);
        const double now = distance(x, weight, goal);
        EXPECT_LT(now, std::max(last / 2, 1e-12)) << name << ", " << way.method << ", stretch " << stretch;
        last = now;
      }
      MPI_Comm_free(&graph);
    }
}

TEST_F(NeighborMix, keeps_the_exact_sum_of_integers_where_shares_are_powers_of_two) {
  if (size != 2 && size != 4) return;
  MPI_Comm graph = comm_of(complete());
  std::vector<double> x(100);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<double>(i * static_cast<std::size_t>(rank + 1));
  const std::vector<double> before = mean(x);
  double weight = 1;
  for (int round = 0; round < 5; ++round) ASSERT_EQ(mix(graph, x, weight, 0.5), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(mean(x), before));
  EXPECT_EQ(weight, 1);
  MPI_Comm_free(&graph);
}

TEST_F(NeighborMix, follows_vectors_that_change_between_rounds) {
  if (size == 1) return;
  MPI_Comm graph = comm_of(ring_with_chords());
  std::vector<double> x(500, static_cast<double>(rank));
  double weight = 1;
  for (int round = 0; round < 60; ++round) {
    if (round < 10)
      for (double& v : x) v += 1;
    ASSERT_EQ(mix(graph, x, weight, 0.5, "int8"), MPI_SUCCESS);
  }
  const std::vector<double> goal(500, 10 + (size - 1) / 2.0);
  EXPECT_LT(distance(x, weight, goal), 1e-2);
  MPI_Comm_free(&graph);
}

TEST_F(NeighborMix, what_is_not_finite_stays_on_its_rank) {
  if (size == 1) return;
  for (const char* const method : {"raw", "int8", "onebit", "f16", "topk"}) {
    MPI_Comm graph = comm_of(ring_with_chords());
    std::vector<float> x = of_rank<float>(rank, 400);
    double weight = 1;
    for (int round = 0; round < 6; ++round) {
      if (rank == 0 && round == 1) {
        x[3] = std::numeric_limits<float>::quiet_NaN();
        x[300] = std::numeric_limits<float>::infinity();
        x[301] = 1e30F;  // more than f16 can send
      }
      ASSERT_EQ(mix(graph, x, weight, 0.3, method), MPI_SUCCESS);
    }
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::isfinite(x[i]), rank != 0 || (i != 3 && i != 300)) << method << ", " << i;
    MPI_Comm_free(&graph);
  }
}

TEST_F(NeighborMix, vectors_without_elements_mix_weights_alone) {
  MPI_Comm graph = comm_of(ring_with_chords());
  std::vector<float> none;
  double weight = rank + 1.0;
  for (int round = 0; round < 200; ++round) ASSERT_EQ(mix(graph, none, weight, 1), MPI_SUCCESS);
  EXPECT_NEAR(sum_of(weight), size * (size + 1) / 2.0, 1e-9);
  MPI_Comm_free(&graph);
}

// A key that has had one round on a graph. The last rank then makes another call than the others.
class UnequalMix : public NeighborMix {
 protected:
  void SetUp() override {
    NeighborMix::SetUp();
    graph = comm_of(ring_with_chords());
    x = of_rank<float>(rank, 200);
    odd = rank == size - 1;
    ASSERT_EQ(mix(graph, x, weight, 0.5, "int8"), MPI_SUCCESS);
    before = x;
    weight_before = weight;
  }
  // Nothing has changed, and the next round works.
  void TearDown() override {
    EXPECT_TRUE(same_bits(x, before));
    EXPECT_EQ(weight, weight_before);
    EXPECT_EQ(mix(graph, x, weight, 0.5, "int8"), MPI_SUCCESS);
    MPI_Comm_free(&graph);
    NeighborMix::TearDown();
  }
  int call(void* vector, double* y, MPI_Count count, MPI_Datatype type, double gamma, MPI_Info keys) {
    return odd ? MPIQ_Neighbor_mix(vector, y, count, type, gamma, graph, keys)
               : MPIQ_Neighbor_mix(x.data(), &weight, 200, MPI_FLOAT, 0.5, graph, info);
  }
  MPI_Comm graph = MPI_COMM_NULL;
  std::vector<float> x, before;
  double weight = 1, weight_before = 1;
  bool odd = false;
  const Info info{{"mpiq_method", "int8"}, {"mpiq_key", "k"}};
};

TEST_F(UnequalMix, an_argument_that_one_rank_cannot_use_is_an_error_on_all) {
  double nan = std::numeric_limits<double>::quiet_NaN(), zero = 0;
  const auto expect = [&](int code, const char* what) { expect_error_everywhere(code, what); };
  expect(call(nullptr, &weight, 200, MPI_FLOAT, 0.5, info), "x is NULL");
  expect(call(x.data(), nullptr, 200, MPI_FLOAT, 0.5, info), "weight is NULL");
  expect(call(x.data(), &nan, 200, MPI_FLOAT, 0.5, info), "not a positive number");
  expect(call(x.data(), &zero, 200, MPI_FLOAT, 0.5, info), "not a positive number");
  expect(call(x.data(), &weight, -1, MPI_FLOAT, 0.5, info), "count -1 is negative");
  expect(call(x.data(), &weight, 200, MPI_INT, 0.5, info), "must be MPI_FLOAT or MPI_DOUBLE");
  for (const double gamma : {0.0, -1.0, 1.5, nan})
    expect(call(x.data(), &weight, 200, MPI_FLOAT, gamma, info), "gamma");
  const Info unknown{{"mpiq_key", "k"}, {"mpiq_colour", "red"}};
  expect(call(x.data(), &weight, 200, MPI_FLOAT, 0.5, unknown), "mpiq_colour");
  std::vector<float> on_comm = x;
  expect(MPIQ_Neighbor_mix(on_comm.data(), &weight, 200, MPI_FLOAT, 0.5, comm, info), "no distributed graph");
}

TEST_F(UnequalMix, ranks_that_differ_get_an_error_that_names_it) {
  if (size == 1) return;
  const auto expect = [&](int code, const char* what) { expect_error_everywhere(code, what); };
  const Info other_method{{"mpiq_method", "int4"}, {"mpiq_key", "k"}},
      other_key{{"mpiq_method", "int8"}, {"mpiq_key", "l"}}, keyless{{"mpiq_method", "int8"}};
  expect(call(x.data(), &weight, 199, MPI_FLOAT, 0.5, info), "belongs to 200 f32");
  expect(call(x.data(), &weight, 200, MPI_FLOAT, 0.25, info), "gamma 0.25");
  expect(call(x.data(), &weight, 200, MPI_FLOAT, 0.5, other_method), "int4");
  expect(call(x.data(), &weight, 200, MPI_FLOAT, 0.5, other_key), "key \"l\"");
  expect(call(x.data(), &weight, 200, MPI_FLOAT, 0.5, keyless), "mpiq_key");
  expect(mix(graph, x, weight, 0.5, "bound(rel=0.1)"), "needs a measure");
  std::vector<float> y(200);
  expect(odd ? MPIQ_Residual_flush(y.data(), 200, MPI_FLOAT, graph, "k") : mix(graph, x, weight, 0.5, "int8"),
         "Neighbor_mix");
}

TEST_F(UnequalMix, a_key_that_some_ranks_have_forgotten_is_an_error_until_all_have) {
  if (size == 1) return;
  if (odd) {
    ASSERT_EQ(MPIQ_Residual_reset(graph, "k"), MPI_SUCCESS);
  }
  expect_error_everywhere(mix(graph, x, weight, 0.5, "int8"), "round 0");
  ASSERT_EQ(MPIQ_Residual_reset(graph, nullptr), MPI_SUCCESS);
}

TEST_F(UnequalMix, a_key_whose_first_round_fails_is_free_for_another_count) {
  if (size == 1) return;
  const Info fresh{{"mpiq_method", "int8"}, {"mpiq_key", "l"}};
  expect_error_everywhere(MPIQ_Neighbor_mix(x.data(), &weight, odd ? 50 : 60, MPI_FLOAT, 0.5, graph, fresh),
                          "50 f32");
  std::vector<float> few(70, 1.0F);
  double few_weight = 1;
  ASSERT_EQ(MPIQ_Neighbor_mix(few.data(), &few_weight, 70, MPI_FLOAT, 0.5, graph, fresh), MPI_SUCCESS);
}

TEST_F(NeighborMix, is_counted_with_its_bytes_and_takes_its_codec_from_the_policy) {
  if (size == 1) return;
  const Edges edges = ring_with_chords();
  MPI_Comm graph = comm_of(edges);
  ASSERT_EQ(MPIQ_Comm_set_policy(graph, "1K-: bf16/direct"), MPI_SUCCESS);
  std::vector<float> x = of_rank<float>(rank, 4000);
  double weight = 1;
  ASSERT_EQ(MPIQ_Neighbor_mix(x.data(), &weight, 4000, MPI_FLOAT, 0.5, graph, Info{{"mpiq_key", "k"}}),
            MPI_SUCCESS);
  MPIQ_Stats s = MPIQ_STATS_INIT;
  ASSERT_EQ(MPIQ_Comm_get_stats(graph, &s), MPI_SUCCESS);
  EXPECT_EQ(s.scheme_calls, 1u);
  EXPECT_EQ(s.calls, 0u);
  const double sent = 8000.0 * static_cast<double>(edges[static_cast<std::size_t>(rank)].size());
  EXPECT_NEAR(static_cast<double>(s.wire_bytes_sent), sent, sent / 100);
  MPI_Comm_free(&graph);
}

}  // namespace
}  // namespace mq::test
