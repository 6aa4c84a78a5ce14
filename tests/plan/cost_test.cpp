// The model of time: what a hand finds, what it is made of, and that choose_plan agrees with it.

#include "mpi_quant/plan/cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string_view>

#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

const PlanRow& plan_of(std::string_view name) { return *find_plan(name); }

Prices only(Term term, double price = 1) {
  Prices prices;
  prices[term] = price;
  return prices;
}

CallShape shape(int ranks, std::size_t count, double wire_bytes = 4) {
  CallShape call;
  call.ranks.size = ranks;
  call.count = count;
  call.wire_bytes = wire_bytes;
  return call;
}

double rounds_of_agreement(int ranks) { return std::ceil(std::log2(ranks)); }

TEST(Cost, latencies_of_a_round_overlap) {
  const auto latencies = [](std::string_view plan, int ranks) {
    return cost_of(plan_of(plan), shape(ranks, 1000), only(Term::latency)).seconds -
           rounds_of_agreement(ranks);
  };
  for (const int ranks : {2, 3, 8, 64, 100, 1000}) {
    EXPECT_DOUBLE_EQ(latencies("direct", ranks), 2) << ranks;
    EXPECT_DOUBLE_EQ(latencies("allgather", ranks), 1) << ranks;
    EXPECT_DOUBLE_EQ(latencies("ring", ranks), 2 * (ranks - 1)) << ranks;
    EXPECT_DOUBLE_EQ(latencies("grid", ranks), ranks < 4 ? 2 : 3) << ranks;
  }
  EXPECT_DOUBLE_EQ(latencies("recursive_doubling", 256), 8);
  EXPECT_DOUBLE_EQ(latencies("halving_doubling", 256), 16);
}

TEST(Cost, every_message_costs_its_sender_and_its_receiver) {
  const auto overheads = [](std::string_view plan, int ranks) {
    return cost_of(plan_of(plan), shape(ranks, 1000), only(Term::overhead)).seconds -
           2 * rounds_of_agreement(ranks);
  };
  for (const int ranks : {2, 16, 64, 256}) {
    EXPECT_DOUBLE_EQ(overheads("direct", ranks), 4 * (ranks - 1)) << ranks;
    EXPECT_DOUBLE_EQ(overheads("allgather", ranks), 2 * (ranks - 1)) << ranks;
  }
  EXPECT_DOUBLE_EQ(overheads("grid", 64), 2 * (2 * 15 + 3));
  EXPECT_DOUBLE_EQ(overheads("grid", 4096), 2 * (2 * 127 + 31));
}

// With long vectors, whose headers do not matter.
TEST(Cost, elements_and_bytes_are_those_of_the_plan) {
  constexpr std::size_t kCount = std::size_t{1} << 28;
  const auto per_element = [&](std::string_view plan, int ranks, Term term) {
    return cost_of(plan_of(plan), shape(ranks, kCount, 1), only(term)).amounts[term] /
           static_cast<double>(kCount);
  };
  EXPECT_NEAR(per_element("direct", 8, Term::encode), 1, 1e-3);
  EXPECT_NEAR(per_element("direct", 8, Term::decode), 15.0 / 8, 1e-3);
  EXPECT_NEAR(per_element("direct", 8, Term::byte), 14.0 / 8, 2e-3);
  EXPECT_NEAR(per_element("direct", 8, Term::copy), 28.0 / 8, 4e-3);
  EXPECT_NEAR(per_element("direct", 8, Term::memory), 2, 1e-3);
  EXPECT_NEAR(per_element("allgather", 8, Term::byte), 7, 2e-2);
  EXPECT_NEAR(per_element("allgather", 8, Term::decode), 8, 1e-3);
  EXPECT_NEAR(per_element("recursive_doubling", 8, Term::byte), 3, 1e-2);
  EXPECT_NEAR(per_element("recursive_doubling", 8, Term::decode), 6, 1e-3);
  EXPECT_NEAR(per_element("grid", 64, Term::byte), 2 * 15.0 / 16 + 3.0 / 16, 5e-3);
  EXPECT_NEAR(per_element("grid", 64, Term::encode), 17.0 / 16, 1e-3);
}

TEST(Cost, seconds_are_the_sum_of_amounts_times_prices) {
  Prices prices;
  double price = 1e-9;
  for (double& p : prices.of) p = price *= 1.7;
  for (const PlanRow& plan : plans())
    for (const int ranks : {2, 5, 16, 100})
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{7}, std::size_t{5000}, std::size_t{1} << 24}) {
        const Cost cost = cost_of(plan, shape(ranks, count), prices);
        double sum = 0;
        for (std::size_t i = 0; i < prices.of.size(); ++i) sum += cost.amounts.of[i] * prices.of[i];
        EXPECT_NEAR(cost.seconds, sum, 1e-9 * sum) << plan.name;
      }
}

Prices prices_by_hand() {
  Prices prices;
  prices[Term::latency] = 3e-6;
  prices[Term::overhead] = 1e-6;
  prices[Term::byte] = 2e-9;
  prices[Term::encode] = 1e-10;
  prices[Term::decode] = 2e-10;
  return prices;
}

TEST(Cost, two_ranks_cost_what_a_hand_finds) {
  const Prices prices = prices_by_hand();
  const double agreed = 5e-6 + 192 * 2e-9;
  // One segment: encode, send, and decode the other's vector after the own one, which is decoded on the way.
  for (const double n : {1000.0, 60000.0}) {
    const double flight = 2e-9 * (32 + 0.125 * n) + 3e-6, own = 2e-10 * n;
    const double expected = agreed + 1e-10 * n + 1e-6 + std::max(flight, own) + 1e-6 + 2e-10 * n;
    EXPECT_NEAR(cost_of(plan_of("allgather"), shape(2, static_cast<std::size_t>(n), 0.125), prices).seconds,
                expected, 1e-12);
  }
  // Many segments: the wire is busy, or the processor.
  constexpr double kLong = 1 << 24;
  const auto seconds = [&](double wire_bytes) {
    return cost_of(plan_of("allgather"), shape(2, std::size_t{1} << 24, wire_bytes), prices).seconds;
  };
  EXPECT_NEAR(seconds(4), 4 * 2e-9 * kLong, 0.02 * 8e-9 * kLong);
  EXPECT_NEAR(seconds(0.01), 5e-10 * kLong, 0.05 * 5e-10 * kLong);
}

TEST(Cost, a_dense_sum_takes_its_best_algorithm) {
  Prices prices;
  prices[Term::latency] = 1e-5;
  prices[Term::overhead] = 1e-6;
  prices[Term::byte] = 1e-9;
  EXPECT_DOUBLE_EQ(dense_cost(1000, 16, prices).seconds, 4 * (1.2e-5 + 1e-6));  // recursive doubling
  EXPECT_DOUBLE_EQ(dense_cost(1e8, 16, prices).seconds,
                   8 * 1.2e-5 + 2 * 15.0 / 16 * 0.1);  // halving and doubling
  const auto costs = dense_costs(1000, 16, prices);
  EXPECT_DOUBLE_EQ(costs[static_cast<std::size_t>(DenseAlgorithm::recursive_doubling)].seconds,
                   dense_cost(1000, 16, prices).seconds);
  EXPECT_DOUBLE_EQ(costs[static_cast<std::size_t>(DenseAlgorithm::ring)].seconds,
                   30 * 1.2e-5 + 2 * 15.0 / 16 * 1e-6);
}

TEST(Cost, other_collectives_take_what_their_plans_send) {
  const Prices prices = prices_by_hand();
  constexpr std::size_t kCount = 6000;
  constexpr double n = kCount, wire = 1, header = 32, half = n / 2;
  const auto seconds = [&](Collective collective, int ranks) {
    return cost_of(collective, shape(ranks, kCount, wire), prices).seconds -
           agreement_cost(ranks, prices).seconds;
  };
  const double message = 2 * 1e-6 + 3e-6;
  // Between two ranks: encode, send, decode. A broadcast backwards decodes where it encoded.
  const double bcast = 1e-10 * n + message + 2e-9 * (header + n) + 2e-10 * n;
  EXPECT_NEAR(seconds(Collective::bcast, 2), bcast, 1e-12);
  EXPECT_NEAR(seconds(Collective::reduce, 2), bcast, 1e-12);
  EXPECT_NEAR(seconds(Collective::reduce_scatter, 2),
              1e-10 * half + message + 2e-9 * (header + half) + 2e-10 * half, 1e-12);
  // Each decodes its own part while the other's is on the way.
  EXPECT_NEAR(seconds(Collective::allgather, 2),
              1e-10 * half + message + 2e-9 * (header + half) + 2e-10 * half, 1e-12);
  // A long vector among many ranks: two of its lengths go through a port one after the other.
  Prices bytes;
  bytes[Term::byte] = 1e-9;
  constexpr std::size_t kLong = std::size_t{1} << 20;
  const double spread = cost_of(Collective::bcast, shape(16, kLong, wire), bytes).seconds;
  EXPECT_GE(spread, 1e-9 * kLong);
  EXPECT_LE(spread, 1e-9 * 2 * kLong);
  EXPECT_EQ(cost_of(Collective::reduce, shape(16, kLong, wire), bytes).seconds, spread);
  // Its owners decode what they add, and the root decodes the sums.
  Prices work;
  work[Term::encode] = 1e-9;
  work[Term::decode] = 3e-9;
  EXPECT_NEAR(cost_of(Collective::reduce, shape(16, kLong, wire), work).seconds, 7e-9 * kLong,
              0.1 * 7e-9 * kLong);
  const CallShape call = shape(16, kLong, wire);
  EXPECT_EQ(cost_of(Collective::allreduce, call, prices).seconds,
            cost_of(choose_plan(4 * kLong, 16), call, prices).seconds);
}

TEST(Cost, amounts_and_prices_of_other_collectives_make_their_seconds) {
  Prices prices;
  for (std::size_t i = 0; i < prices.of.size(); ++i) prices.of[i] = 1e-9 * static_cast<double>(i + 1);
  for (const Collective collective : kCollectives)
    for (const int ranks : {2, 3, 16, 100})
      for (const std::size_t count : {std::size_t{100}, std::size_t{1} << 20}) {
        const Cost cost = cost_of(collective, shape(ranks, count, 1), prices);
        double sum = 0;
        for (std::size_t i = 0; i < prices.of.size(); ++i) sum += cost.amounts.of[i] * prices.of[i];
        EXPECT_NEAR(cost.seconds, sum, 1e-9 * sum) << name(collective) << " of " << count << ", " << ranks;
      }
}

TEST(Cost, mpis_other_collectives_take_their_best_algorithm) {
  Prices prices;
  prices[Term::latency] = 1e-5;
  prices[Term::overhead] = 1e-6;
  prices[Term::byte] = 1e-9;
  const auto seconds = [&](Collective collective, double bytes) {
    return dense_cost(collective, bytes, 16, prices).seconds;
  };
  for (const Collective each : {Collective::reduce_scatter, Collective::allgather})
    EXPECT_DOUBLE_EQ(seconds(each, 1e8), 4 * 1.2e-5 + 15.0 / 16 * 0.1);
  for (const Collective each : {Collective::bcast, Collective::reduce}) {
    EXPECT_DOUBLE_EQ(seconds(each, 1000), 4 * (1.2e-5 + 1e-6));              // a tree
    EXPECT_DOUBLE_EQ(seconds(each, 1e8), 8 * 1.2e-5 + 2 * 15.0 / 16 * 0.1);  // halves
  }
  EXPECT_EQ(seconds(Collective::allreduce, 1e8), dense_cost(1e8, 16, prices).seconds);
}

TEST(Cost, nothing_that_costs_more_makes_a_call_shorter) {
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> exponent(-3, 3);
  const auto around = [&](double v) { return v * std::pow(10, exponent(random)); };
  for (int round = 0; round < 300; ++round) {
    const PlanRow& plan = plans()[static_cast<std::size_t>(round) % plans().size()];
    CallShape call = shape(2 + round % 31, static_cast<std::size_t>(around(1e6)), around(0.1));
    call.ranks.encodes_own = round % 3 == 0;
    Prices prices;
    for (double& p : prices.of) p = around(1e-9);
    const double t = cost_of(plan, call, prices).seconds;
    for (double& p : prices.of) {
      const double before = p;
      p *= 1.5;
      ASSERT_GE(cost_of(plan, call, prices).seconds, t * (1 - 1e-12));
      p = before;
    }
    CallShape longer = call;
    longer.wire_bytes *= 1.5;
    ASSERT_GE(cost_of(plan, longer, prices).seconds, t * (1 - 1e-12));
  }
}

struct Network {
  double latency_s, overhead_s, bandwidth_Bps, copy_Bps;
};
struct Coding {
  double encode_s, decode_s, memory_s, wire_bytes;
  std::size_t block;
};

// The links of mpiq-simulate, and onebit, bf16 and raw at the rates of results/reference/kernels.json: of 256
// KiB, and what memory adds.
TEST(ChoosePlan, takes_little_more_than_the_best_plan_by_the_model) {
  constexpr Network kNetworks[]{{5e-6, 10e-6, 117.5e6, 4e9},
                                {8e-6, 10e-6, 1.175e9, 2.5e9},
                                {20e-6, 1e-6, 1.25e9, 1e300},
                                {2e-6, 0.3e-6, 12.5e9, 1e300}};
  constexpr Coding kCodings[]{{0.22e-9, 0.14e-9, 0.4e-9, 0.135, 512},
                              {0.45e-9, 0.17e-9, 0.37e-9, 2, 32},
                              {0.31e-9, 0.18e-9, 0.9e-9, 4, 32}};
  double logs = 0, worst = 1;
  int n = 0;
  for (const int ranks : {3, 4, 6, 8, 12, 16, 32, 61, 64, 128, 256, 512, 1024})
    for (std::size_t bytes = 4096; bytes <= std::size_t{1} << 30; bytes *= 4)
      for (const Network& network : kNetworks)
        for (const Coding& coding : kCodings) {
          Prices prices;
          prices[Term::latency] = network.latency_s;
          prices[Term::overhead] = network.overhead_s;
          prices[Term::byte] = 1 / network.bandwidth_Bps;
          prices[Term::copy] = 1 / network.copy_Bps;
          prices[Term::encode] = coding.encode_s;
          prices[Term::decode] = coding.decode_s;
          prices[Term::memory] = coding.memory_s;
          CallShape call = shape(ranks, bytes / 4, coding.wire_bytes);
          call.block = coding.block;
          double best = cost_of(plans()[0], call, prices).seconds;
          for (const PlanRow& plan : plans())
            if (plan.name != "ring" &&
                plan.name != "halving_doubling")  // a loss of each rank, or of each round
              best = std::min(best, cost_of(plan, call, prices).seconds);
          const double ratio = cost_of(choose_plan(bytes, ranks), call, prices).seconds / best;
          logs += std::log(ratio);
          worst = std::max(worst, ratio);
          ++n;
        }
  RecordProperty("geometric_mean", std::to_string(std::exp(logs / n)));
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LT(std::exp(logs / n), 1.1) << worst;
  EXPECT_LT(worst, 4) << std::exp(logs / n);
}

}  // namespace
}  // namespace mq::test
