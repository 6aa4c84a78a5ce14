// Simulated reductions of sparse vectors. Every simulation checks its own sums, so that here ok also means
// right.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/research/simulate/sparse.hpp"
#include "sparse_allreduce/exchange.hpp"
#include "tests/bench/bench_simulate_scene.hpp"

namespace mq::sim {
namespace {

using Kind = SparseReduction::Kind;
constexpr ListCosts kFree{0, 0, 0};

std::vector<std::int64_t> random_list(std::uint64_t size, std::size_t count, unsigned seed) {
  std::vector<std::int64_t> list(size);
  std::iota(list.begin(), list.end(), 0);
  std::shuffle(list.begin(), list.end(), std::mt19937(seed));
  list.resize(count);
  std::sort(list.begin(), list.end());
  return list;
}

SparseReduction reduction(Kind kind, int ranks, std::uint64_t size = 3000, std::size_t count = 200) {
  SparseReduction r;
  r.kind = kind;
  r.size = size;
  for (int rank = 0; rank < ranks; ++rank) {
    r.out.push_back(random_list(size, count, static_cast<unsigned>(rank)));
    if (kind != Kind::make_union)
      r.in.push_back(random_list(size, count / 2, static_cast<unsigned>(1000 + rank)));
  }
  return r;
}

// All ranks have all of `count` indices.
SparseReduction full_lists(Kind kind, int ranks, std::size_t count) {
  SparseReduction r = reduction(kind, ranks, count, count);
  if (kind != Kind::make_union) r.in = r.out;
  r.costs = kFree;
  return r;
}

SparseResult run(const SparseReduction& r, const Network& n = network()) {
  const Status status = check(r, n);
  EXPECT_TRUE(status.ok()) << status.text();
  SparseResult result = simulate(r, n);
  EXPECT_TRUE(result.simulated.status.ok()) << result.simulated.status.text();
  EXPECT_EQ(result.simulated.leaked, 0u);
  return result;
}

TEST(SimulatedSparse, every_method_gives_the_sums_at_any_number_of_ranks) {
  using enum sparse::Algorithm;
  for (const int ranks : {2, 3, 8, 21}) {
    for (const sparse::Algorithm algorithm : {automatic, allgather, split, recursive_doubling})
      for (const bool dense_result : {false, true}) {
        SparseReduction r = reduction(Kind::make_union, ranks);
        r.algorithm = algorithm;
        r.dense_result = dense_result;
        r.element = dense_result ? kernels::Element::f64 : kernels::Element::f32;
        const SparseResult got = run(r);
        EXPECT_TRUE(algorithm == automatic || got.algorithm == algorithm);
      }
    for (const Kind kind : {Kind::kylix, Kind::fused}) {
      SparseReduction r = reduction(kind, ranks);
      r.element = ranks == 3 ? kernels::Element::f64 : kernels::Element::f32;
      run(r);
      r.fresh = true;
      run(r);
    }
  }
}

TEST(SimulatedSparse, kylix_at_two_ranks_takes_a_message_down_and_one_up) {
  const Network n = network();
  for (const std::size_t count : {2u, 1000u, 65536u}) {
    const SparseResult got = run(full_lists(Kind::kylix, 2, count), n);
    // Each rank is responsible for half of the indices, nearly: ranges are cut by samples.
    const double half = 4.0 * static_cast<double>(count) / 2, message = sizeof(sparse::Header) + half;
    EXPECT_NEAR(got.simulated.last().end_s, 2 * message_s(n, message), 0.1 * half / n.bandwidth_Bps + 1e-12)
        << count;
    std::uint64_t sent = 0;
    for (const SimulatedRank& rank : got.simulated.ranks) {
      sent += rank.frame_bytes;
      EXPECT_EQ(rank.messages, 2u);
    }
    EXPECT_EQ(sent, static_cast<std::uint64_t>(4 * message));
    EXPECT_EQ(got.degrees, std::vector<int>{2});
  }
}

TEST(SimulatedSparse, kylix_sends_the_messages_and_bytes_of_its_degrees) {
  constexpr std::size_t kCount = 64 * 48;
  for (const auto& degrees : {std::vector{64}, {8, 8}, {16, 4}, {4, 4, 4}, {2, 2, 2, 2, 2, 2}}) {
    SparseReduction r = full_lists(Kind::kylix, 64, kCount);
    r.degrees = degrees;
    const SparseResult got = run(r);
    std::uint64_t messages = 0, entries = 0, left = kCount;
    for (const int degree : degrees) {
      const auto d = static_cast<std::uint64_t>(degree);
      messages += 2 * (d - 1);
      entries += 2 * (left / d) * (d - 1);
      left /= d;
    }
    std::uint64_t sent = 0;
    for (const SimulatedRank& rank : got.simulated.ranks) {
      EXPECT_EQ(rank.messages, messages);
      sent += rank.frame_bytes;
    }
    EXPECT_EQ(sent, 64 * (messages * sizeof(sparse::Header) + 4 * entries));  // ranges are not quite equal
  }
}

TEST(SimulatedSparse, what_ranks_do_with_entries_takes_the_time_of_its_costs) {
  constexpr std::size_t kCount = 1000;
  const auto end_s = [&](Kind kind, const ListCosts& costs) {
    SparseReduction r = full_lists(kind, 2, kCount);
    r.algorithm = sparse::Algorithm::recursive_doubling;
    r.costs = costs;
    return run(r).simulated.last().end_s;
  };
  const double free_s = end_s(Kind::make_union, kFree), routed_s = end_s(Kind::kylix, kFree);
  EXPECT_NEAR(end_s(Kind::make_union, {1e-6, 0, 0}) - free_s, 1e-6 * kCount, 1e-12);
  EXPECT_NEAR(end_s(Kind::make_union, {0, 1e-6, 0}) - free_s, 1e-6 * kCount, 1e-12);
  EXPECT_NEAR(end_s(Kind::make_union, {0, 0, 1e-6}) - free_s, 2e-6 * kCount,
              1e-12);                                           // two lists, and the copy
  EXPECT_NEAR(end_s(Kind::kylix, {1, 1, 0}), routed_s, 1e-12);  // no positions travel
  EXPECT_GT(end_s(Kind::kylix, {0, 0, 1e-6}), routed_s + 1e-6 * kCount);
}

// The library gets the numbers of the simulated network, which a program would measure.
TEST(SimulatedSparse, the_library_chooses_degrees_that_are_near_the_best) {
  for (const double overhead_s : {0.2e-6, 1e-6, 10e-6})
    for (const std::size_t count : {100u, 2000u}) {
      Network n = network();
      n.latency_s = 20e-6;
      n.overhead_s = overhead_s;
      SparseReduction r = reduction(Kind::kylix, 64, 40000, count);
      r.in = r.out;
      const double chosen_s = run(r, n).simulated.last().end_s;
      double best_s = HUGE_VAL;
      for (const auto& degrees :
           {std::vector{64}, {8, 8}, {16, 4}, {4, 4, 4}, {8, 4, 2}, {2, 2, 2, 2, 2, 2}}) {
        r.degrees = degrees;
        best_s = std::min(best_s, run(r, n).simulated.last().end_s);
      }
      EXPECT_LT(chosen_s, 1.25 * best_s) << overhead_s << " " << count;
    }
}

TEST(SimulatedSparse, a_configuration_takes_time_and_messages) {
  SparseReduction r = reduction(Kind::kylix, 8);
  r.degrees = {4, 2};
  const SparseResult same = run(r);
  r.fresh = true;
  const SparseResult fresh = run(r);
  EXPECT_GT(fresh.simulated.last().end_s, 2 * same.simulated.last().end_s);
  EXPECT_GT(fresh.simulated.last().messages, same.simulated.last().messages + 4);
  r.kind = Kind::fused;  // values travel down with the lists
  EXPECT_LT(run(r).simulated.last().end_s, fresh.simulated.last().end_s);
}

TEST(SimulatedSparse, is_deterministic) {
  for (const Kind kind : {Kind::make_union, Kind::kylix, Kind::fused}) {
    const SparseReduction r = reduction(kind, 16);
    const SparseResult a = run(r), b = run(r);
    EXPECT_EQ(a.degrees, b.degrees);
    for (std::size_t i = 0; i < a.simulated.ranks.size(); ++i)
      EXPECT_EQ(a.simulated.ranks[i].end_s, b.simulated.ranks[i].end_s);
  }
}

TEST(SimulatedSparse, what_cannot_be_simulated_is_refused) {
  const Network n = network();
  EXPECT_TRUE(check(reduction(Kind::fused, 4), n).ok());
  EXPECT_FALSE(check(reduction(Kind::fused, 1), n).ok());
  SparseReduction r = reduction(Kind::kylix, 8);
  r.degrees = {3, 7};
  EXPECT_FALSE(check(r, n).ok());
  r = reduction(Kind::make_union, 4);
  r.algorithm = sparse::Algorithm::dense;
  EXPECT_FALSE(check(r, n).ok());
  ListCosts costs = kFree;
  for (const char* const bad : {"", "2ns", "2ns/2ns", "2ns/2ns/3", "2ns/2ns/3ns/4ns", "2ns/-2ns/3ns"})
    EXPECT_FALSE(parse_times(bad, costs).ok()) << bad;
  EXPECT_EQ(costs, kFree);
  EXPECT_TRUE(parse_times("2ns/1.5us/3ns", costs).ok());
  EXPECT_DOUBLE_EQ(costs[1], 1.5e-6);
}

}  // namespace
}  // namespace mq::sim
