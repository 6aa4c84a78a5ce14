// Whether intervals keep what they promise: made-up repetitions with heavy tails, drift and memory.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "bench/stats.hpp"

namespace mq::bench {
namespace {

constexpr int kRuns = 1000;

// Times of two methods in the same blocks. What a block does to both (drift, and a disturbance that remembers
// the last one) is shared; the rest is each method's own and has a tail that has no variance.
struct Machine {
  double drift = 0;       // over the whole run, relative
  double memory = 0;      // of the shared disturbance from block to block
  double own_memory = 0;  // of each method's own noise
  std::size_t blocks = 40;

  std::pair<std::vector<double>, std::vector<double>> run(double ratio, unsigned seed) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::student_t_distribution<double> heavy(2);
    std::vector<double> base, variant;
    double shared = 0, own[2] = {0, 0};
    for (std::size_t k = 0; k < blocks; ++k) {
      shared = memory * shared + 0.05 * normal(random);
      const double block = shared + drift * static_cast<double>(k) / static_cast<double>(blocks);
      for (double& noise : own) noise = own_memory * noise + 0.01 * std::abs(heavy(random));
      base.push_back(1e-3 * std::exp(block + own[0]));
      variant.push_back(1e-3 / ratio * std::exp(block + own[1]));
    }
    return {base, variant};
  }
};

struct Counts {
  int with_one = 0, above_one = 0, with_truth = 0;
};

Counts count(const Machine& machine, double ratio) {
  Counts c;
  for (unsigned seed = 1; seed <= kRuns; ++seed) {
    const auto [base, variant] = machine.run(ratio, seed);
    const Speedup s = paired_speedup(base, variant, 1);
    c.with_one += s.lo <= 1 && 1 <= s.hi ? 1 : 0;
    c.above_one += s.lo > 1 ? 1 : 0;
    c.with_truth += s.lo <= ratio && ratio <= s.hi ? 1 : 0;
  }
  return c;
}

TEST(LastCalls, have_a_median_from_the_first_call_on_and_are_steady_from_the_third) {
  LastCalls calls;
  EXPECT_TRUE(std::isnan(calls.median()));
  calls.add(0.6);
  EXPECT_EQ(calls.median(), 0.6);  // a call this long may be the only one of a warm-up
  calls.add(0.4);
  EXPECT_EQ(calls.median(), 0.5);
  EXPECT_FALSE(calls.steady());
  calls.add(0.42);
  EXPECT_EQ(calls.median(), 0.42);
  EXPECT_FALSE(calls.steady());
  calls.add(0.41);  // in place of 0.6
  EXPECT_EQ(calls.median(), 0.41);
  EXPECT_TRUE(calls.steady());
}

TEST(PairedInterval, of_a_method_against_itself_contains_one_in_95_percent_of_runs) {
  for (const std::size_t blocks : {20U, 40U, 101U}) {
    const Counts c = count({.drift = 0, .memory = 0, .own_memory = 0, .blocks = blocks}, 1);
    EXPECT_GE(c.with_one, 950) << blocks << " blocks, heavy tails";
    EXPECT_LE(c.with_one, 990) << blocks << " blocks: wider than it needs to be";
  }
}

TEST(PairedInterval, does_not_mind_what_happens_to_a_whole_block) {
  EXPECT_GE(count({.drift = 3, .memory = 0, .own_memory = 0}, 1).with_one, 950)
      << "20 times slower at the end";
  EXPECT_GE(count({.drift = 0, .memory = 0.95, .own_memory = 0}, 1).with_one, 950)
      << "disturbances that last";
}

TEST(PairedInterval, finds_three_percent_and_says_how_much) {
  const Counts c = count({.drift = 1, .memory = 0.9, .own_memory = 0, .blocks = 68}, 1.03);
  EXPECT_GE(c.above_one, 950) << "of " << kRuns;
  EXPECT_GE(c.with_truth, 950);
}

// What the column lag1 warns of.
TEST(PairedInterval, is_too_narrow_if_a_methods_own_noise_remembers) {
  EXPECT_LT(count({.drift = 0, .memory = 0, .own_memory = 0.9}, 1).with_one, 850);
}

}  // namespace
}  // namespace mq::bench
