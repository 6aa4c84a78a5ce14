// MPI's own reduction among simulated ranks: times where a formula is exact, every number of ranks, and the
// choice of the fastest algorithm.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

#include "bench/parts.hpp"
#include "bench/research/simulate/dense.hpp"
#include "tests/bench/bench_simulate_scene.hpp"

namespace mq::sim {
namespace {

SimulatedCall call_of(std::size_t count, int ranks, Collective collective = Collective::allreduce) {
  SimulatedCall call;
  call.collective = collective;
  call.method = *parse_method("mpi");
  call.count = count;
  call.ranks = ranks;
  return call;
}

SimulatedResult run(const SimulatedCall& call, std::string_view algorithm,
                    const Rates& rates = Rates::constant(0)) {
  const Status status = check(call, network(), rates);
  EXPECT_TRUE(status.ok()) << status.text();
  SimulatedResult result = simulate_dense(call, network(), rates, algorithm);
  EXPECT_TRUE(result.status.ok()) << result.status.text();
  EXPECT_EQ(result.leaked, 0u);
  return result;
}

SimulatedResult run(const SimulatedCall& call, DenseAlgorithm algorithm,
                    const Rates& rates = Rates::constant(0)) {
  return run(call, kDenseNames[static_cast<std::size_t>(algorithm)], rates);
}

// With a power of two all ranks do the same at the same time, so the rounds add up.
TEST(SimulatedDense, takes_the_messages_and_additions_of_its_algorithm) {
  const Network n = network();
  constexpr double kByte = 0.2e-9;
  const Rates rates = Rates::constant(kByte);
  constexpr std::size_t kCount = 1 << 14;
  constexpr double kBytes = 4.0 * kCount;
  for (const int ranks : {2, 8, 64}) {
    const double rounds = std::countr_zero(static_cast<unsigned>(ranks)), p = ranks;
    const auto end = [&](DenseAlgorithm algorithm) {
      return run(call_of(kCount, ranks), algorithm, rates).last().end_s;
    };
    EXPECT_NEAR(end(DenseAlgorithm::recursive_doubling), rounds * (message_s(n, kBytes) + kByte * kBytes),
                1e-12);
    double halving = 0;
    for (double part = kBytes / 2; part >= kBytes / p; part /= 2)
      halving += 2 * message_s(n, part) + kByte * part;
    EXPECT_NEAR(end(DenseAlgorithm::halving_doubling), halving, 1e-12);
    const double piece = kBytes / p;
    EXPECT_NEAR(end(DenseAlgorithm::ring), (p - 1) * (2 * message_s(n, piece) + kByte * piece), 1e-12);
  }
}

// Every message has the length that its receiver expects, else the call fails. Each algorithm sends at least
// what a reduction must: 2 (P - 1) vectors in all.
TEST(SimulatedDense, every_number_of_ranks_sends_what_its_algorithm_says) {
  for (int ranks = 2; ranks <= 33; ++ranks)
    for (const std::size_t count : {1u, 7u, 1000u}) {
      const double bytes = 4.0 * static_cast<double>(count), p = ranks;
      const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
      const double beyond = ranks - core, rounds = std::countr_zero(static_cast<unsigned>(core));
      const auto sent = [&](DenseAlgorithm algorithm) {
        double all = 0;
        for (const SimulatedRank& rank : run(call_of(count, ranks), algorithm).ranks)
          all += static_cast<double>(rank.frame_bytes);
        return all;
      };
      const double paired = 2 * beyond * bytes;
      EXPECT_DOUBLE_EQ(sent(DenseAlgorithm::recursive_doubling), core * rounds * bytes + paired) << ranks;
      EXPECT_DOUBLE_EQ(sent(DenseAlgorithm::halving_doubling), 2.0 * (core - 1) * bytes + paired) << ranks;
      EXPECT_DOUBLE_EQ(sent(DenseAlgorithm::ring), 2 * (p - 1) * bytes) << ranks;
    }
}

// The halves of an allreduce: their messages, and the sums that a reduce-scatter needs.
TEST(SimulatedDense, a_half_of_an_allreduce_takes_the_messages_and_additions_of_its_algorithm) {
  const Network n = network();
  constexpr double kByte = 0.2e-9;
  const Rates rates = Rates::constant(kByte);
  constexpr std::size_t kCount = 1 << 14;
  constexpr double kBytes = 4.0 * kCount;
  for (const int ranks : {2, 8, 64}) {
    const double p = ranks, piece = kBytes / p;
    const auto end = [&](Collective collective, std::string_view algorithm) {
      return run(call_of(kCount, ranks, collective), algorithm, rates).last().end_s;
    };
    double messages = 0, additions = 0;
    for (double part = kBytes / 2; part >= piece; part /= 2) {
      messages += message_s(n, part);
      additions += kByte * part;
    }
    EXPECT_NEAR(end(Collective::reduce_scatter, "recursive_halving"), messages + additions, 1e-12);
    EXPECT_NEAR(end(Collective::allgather, "recursive_doubling"), messages, 1e-12);
    EXPECT_NEAR(end(Collective::allgather, "bruck"), messages, 1e-12);
    const double ring = (p - 1) * message_s(n, piece);
    EXPECT_NEAR(end(Collective::reduce_scatter, "ring"), ring + (p - 1) * kByte * piece, 1e-12);
    EXPECT_NEAR(end(Collective::allgather, "ring"), ring, 1e-12);
  }
}

// A reduce-scatter or an allgather must send P - 1 vectors in all. Recursive halving among another number
// than a power of two also sends the parts of the ranks beyond it.
TEST(SimulatedDense, every_number_of_ranks_sends_what_a_half_of_an_allreduce_needs) {
  for (int ranks = 2; ranks <= 33; ++ranks)
    for (const std::size_t count : {1u, 7u, 1000u})
      for (const Collective collective : {Collective::reduce_scatter, Collective::allgather})
        for (const std::string_view algorithm : dense_algorithms(collective, ranks)) {
          double sent = 0, expected = 4.0 * static_cast<double>(count) * (ranks - 1);
          for (const SimulatedRank& rank : run(call_of(count, ranks, collective), algorithm).ranks)
            sent += static_cast<double>(rank.frame_bytes);
          if (algorithm == "recursive_halving") {
            const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
            expected = 4.0 * static_cast<double>(count) * (ranks - 1);
            for (int r = 0; r < 2 * (ranks - core); r += 2)
              expected += 4.0 * static_cast<double>(bench::part_of(count, ranks, r).count);
          }
          EXPECT_DOUBLE_EQ(sent, expected) << algorithm << " " << ranks << " " << count;
        }
}

// A broadcast must send P - 1 vectors in all, and so must a reduction by a tree. With a scatter the parts of
// others travel twice: down the tree, and in the allgather.
TEST(SimulatedDense, rooted_calls_send_what_their_algorithm_needs) {
  for (int ranks = 2; ranks <= 33; ++ranks)
    for (const std::size_t count : {1u, 7u, 1000u})
      for (const Collective collective : {Collective::bcast, Collective::reduce})
        for (const std::string_view algorithm : dense_algorithms(collective, ranks)) {
          double sent = 0, vectors = ranks - 1;
          std::uint64_t most = 0;
          for (const SimulatedRank& rank : run(call_of(count, ranks, collective), algorithm).ranks) {
            sent += static_cast<double>(rank.frame_bytes);
            most = std::max(most, rank.messages);
          }
          const double bytes = 4.0 * static_cast<double>(count);
          if (algorithm == "binomial") {
            EXPECT_DOUBLE_EQ(sent, bytes * vectors) << ranks;
            EXPECT_LE(most, static_cast<unsigned>(std::bit_width(static_cast<unsigned>(ranks - 1))));
          } else if (collective == Collective::bcast) {
            // Down the tree a part goes as often as its rank's number has ones.
            for (int r = 0; r < ranks; ++r)
              sent -= 4.0 * static_cast<double>(bench::part_of(count, ranks, r).count) *
                      std::popcount(static_cast<unsigned>(r));
            EXPECT_DOUBLE_EQ(sent, bytes * vectors) << algorithm << ' ' << ranks << ' ' << count;
          } else if (std::has_single_bit(static_cast<unsigned>(ranks)) && count % 32 == 8) {
            // Halving sends P - 1 vectors; the gather sends half of one in each round.
            const double rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
            EXPECT_NEAR(sent, bytes * (vectors + rounds / 2), 64 * rounds) << ranks;
          }
        }
}

TEST(SimulatedDense, rooted_calls_take_the_time_of_their_messages) {
  const Network n = network();
  constexpr double kByte = 1e-11;
  const Rates rates = Rates::constant(kByte);
  constexpr std::size_t kCount = 1 << 14;
  constexpr double kBytes = 4.0 * kCount;
  for (const int ranks : {2, 8, 64}) {
    const double rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
    const auto end = [&](Collective collective, std::string_view algorithm) {
      return run(call_of(kCount, ranks, collective), algorithm, rates).last().end_s;
    };
    double halves = 0, additions = 0;
    for (double part = kBytes / 2; part >= kBytes / ranks; part /= 2) {
      halves += message_s(n, part);
      additions += kByte * part;
    }
    EXPECT_NEAR(end(Collective::reduce, "halving_gather"), 2 * halves + additions, 1e-12) << ranks;
    EXPECT_GE(end(Collective::reduce, "binomial"), rounds * (message_s(n, kBytes) + kByte * kBytes) - 1e-12);
    EXPECT_GE(end(Collective::bcast, "binomial"), rounds * message_s(n, kBytes) - 1e-12);
    EXPECT_GE(end(Collective::bcast, "scatter_recursive_doubling"), 2 * halves - 1e-12);
  }
}

TEST(SimulatedDense, the_fastest_algorithm_counts) {
  const Rates rates = Rates::constant(1e-11);
  for (const Collective collective : bench::kMeasured)
    for (const int ranks : {2, 7, 16, 61})
      for (const std::size_t count : {1u, 1u << 10, 1u << 16, 1u << 20}) {
        const SimulatedCall call = call_of(count, ranks, collective);
        const DenseResult best = simulate_dense(call, network(), rates);
        ASSERT_TRUE(best.simulated.status.ok());
        std::size_t found = 0;
        for (const std::string_view algorithm : dense_algorithms(collective, ranks)) {
          const double other = run(call, algorithm, rates).last().end_s;
          EXPECT_LE(best.simulated.last().end_s, other) << algorithm << " " << ranks << " " << count;
          if (best.algorithm != algorithm) continue;
          ++found;
          EXPECT_DOUBLE_EQ(best.simulated.last().end_s, other);
        }
        EXPECT_EQ(found, 1U) << best.algorithm;
      }
  EXPECT_EQ(simulate_dense(call_of(1, 16), network(), rates).algorithm, "recursive_doubling");
  EXPECT_NE(simulate_dense(call_of(1 << 20, 16), network(), rates).algorithm, "recursive_doubling");
  EXPECT_EQ(simulate_dense(call_of(1 << 10, 61, Collective::allgather), network(), rates).algorithm, "bruck");
  EXPECT_EQ(simulate_dense(call_of(1 << 20, 61, Collective::reduce_scatter), network(), rates).algorithm,
            "ring");
}

TEST(SimulatedDense, a_short_vector_among_many_ranks_takes_few_messages) {
  const int ranks = many_ranks();
  const SimulatedResult got = run(call_of(1 << 14, ranks), DenseAlgorithm::halving_doubling);
  EXPECT_LE(got.last().messages, 2u * std::bit_width(static_cast<unsigned>(ranks)));
}

TEST(SimulatedDense, calls_one_after_the_other_count_the_last) {
  SimulatedCall call = call_of(1000, 7);
  const double once = run(call, DenseAlgorithm::ring).last().end_s;
  call.repeats = 3;
  EXPECT_NEAR(run(call, DenseAlgorithm::ring).last().end_s, once, 0.2 * once);
}

TEST(SimulatedDense, is_refused_with_vectors_and_side_by_side) {
  const Rates rates = Rates::constant(0);
  SimulatedCall call = call_of(10, 2);
  call.calls = 2;
  EXPECT_FALSE(check(call, network(), rates).ok());
  const Vectors vectors;
  call.calls = 1;
  call.vectors = &vectors;
  EXPECT_FALSE(check(call, network(), rates).ok());
}

}  // namespace
}  // namespace mq::sim
