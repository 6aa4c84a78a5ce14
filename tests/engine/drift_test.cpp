// What memory rules keep by adding to it, over thousands of calls. Each call rounds. These errors may add up
// like a random walk: with the square root of the calls, as where floats are added without any codec. They
// must not grow faster than that, and an exact call of a rule with estimates must end them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/memory_scene.hpp"

namespace mq::test {
namespace {

constexpr std::size_t kN = 40;
constexpr int kRanks = 3, kCalls = kSanitized ? 100 : 2000;
constexpr const char* kCodecs[]{"raw", "bf16", "int8", "onebit", "topk"};
constexpr double kUnit = static_cast<double>(std::numeric_limits<float>::epsilon());
// The random walk of 2,000 calls has 45 units, and a constant error in each call 2,000.
constexpr double kWalk = 6;

const kernels::MemoryRule& rule(std::string_view name) { return *kernels::find_memory_rule(name); }

const Vectors<float>& vectors_of_call(int call) {
  static std::vector<Vectors<float>> drawn(kCalls + 1);  // once for all rules and codecs
  Vectors<float>& x = drawn[static_cast<std::size_t>(call)];
  for (int r = static_cast<int>(x.size()); r < kRanks; ++r)
    x.push_back(fresh_input<float>(Input::normal, kN, static_cast<std::uint64_t>(kRanks * call + r)));
  return x;
}

double greatest(const std::vector<float>& x) {
  double most = 0;
  for (const float v : x) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

// How far the sum of estimates that all ranks know is from the sum of the estimates.
double distance(const Outcome<float>& got) {
  double most = 0;
  for (std::size_t i = 0; i < kN; ++i) {
    double sum = static_cast<double>(got.residual[0][kN + i]);
    for (const auto& arrays : got.residual) sum += static_cast<double>(arrays[i]);
    most = std::max(most, std::abs(sum));
  }
  return most;
}

void expect_estimates(Scene scene) {
  auto arrays = with_arrays(*scene.memory, zeros<float>(kRanks, kN));
  double magnitude = 0;
  const std::string where = scene.describe(kN);
  for (int call = 0; call <= kCalls; ++call) {
    scene.exact_restart = call == 0 || call == kCalls;
    scene.random_key = static_cast<std::uint64_t>(call + 1);
    if (scene.exact_restart)
      arrays = with_arrays(*scene.memory, zeros<float>(kRanks, kN));  // settle_estimates() does this
    const Outcome<float> got = run(scene, vectors_of_call(call), arrays);
    arrays = got.residual;
    for (const auto& of_rank : arrays) magnitude = std::max(magnitude, greatest(of_rank));
    const double steps = scene.exact_restart ? 1 : std::sqrt(call + 1.0);
    ASSERT_LE(distance(got), kWalk * kUnit * magnitude * steps) << where << "call " << call;
  }
}

TEST(Drift, the_sum_of_estimates_and_the_estimates_part_like_a_random_walk_until_an_exact_call) {
  for (const char* const codec : kCodecs)
    for (const kernels::MemoryRule& of : kernels::memory_rules()) {
      if (!of.keeps_estimates) continue;
      Scene scene{kernels::find_codec(codec), find_plan("direct"), kRanks};
      scene.memory = &of;
      const bool has_versions = of.name == "3pc";
      for (double version = has_versions ? 2 : 0; version <= (has_versions ? 5 : 0); ++version) {
        if (has_versions) scene.memory_values = {{0, version}};
        expect_estimates(scene);
      }
    }
}

TEST(Drift, of_vectors_at_rest_estimates_stay_as_they_are) {
  for (const kernels::MemoryRule& of : kernels::memory_rules()) {
    if (!of.keeps_estimates) continue;
    for (const char* const codec : kCodecs) {
      Scene scene{kernels::find_codec(codec), find_plan("direct"), kRanks};
      scene.memory = &of;
      scene.exact_restart = true;
      Outcome<float> got = run(scene, vectors_of_call(0), with_arrays(of, zeros<float>(kRanks, kN)));
      const double first = distance(got);
      scene.exact_restart = false;
      for (int call = 1; call < kCalls; ++call) got = run(scene, vectors_of_call(0), got.residual);
      EXPECT_EQ(distance(got), first) << scene.describe(kN);
    }
  }
}

// Sum of all vectors = sum of all results + what waits.
void expect_conserved_over_calls(const Scene& scene) {
  auto arrays = with_arrays(*scene.memory, zeros<float>(kRanks, kN));
  std::vector<double> left(kN);
  double magnitude = 0;
  for (int call = 0; call < kCalls; ++call) {
    const auto& x = vectors_of_call(call);
    const Outcome<float> got = run(scene, x, arrays);
    arrays = got.residual;
    magnitude = std::max(magnitude, greatest(got.output[0]));
    for (const auto& of_rank : arrays) magnitude = std::max(magnitude, greatest(of_rank));
    for (std::size_t i = 0; i < kN; ++i) {
      for (const auto& of_rank : x) left[i] += static_cast<double>(of_rank[i]);
      left[i] -= static_cast<double>(got.output[0][i]);
      double waits = 0;
      for (const auto& of_rank : arrays) waits += static_cast<double>(of_rank[i]);
      ASSERT_NEAR(left[i], waits, kWalk * kUnit * magnitude * std::sqrt(call + 1.0))
          << scene.describe(kN) << "call " << call << " at " << i;
    }
  }
}

TEST(Drift, results_and_residuals_lose_no_more_than_a_random_walk) {
  for (const char* const codec : kCodecs) {
    Scene scene{kernels::find_codec(codec), find_plan("direct"), kRanks};
    expect_conserved_over_calls(scene);
    scene.memory = &rule("decay");
    scene.memory_values = {{0, 1}};
    expect_conserved_over_calls(scene);
    scene.memory = &rule("momentum");
    scene.memory_values = {{0, 0}, {2, 1}};
    expect_conserved_over_calls(scene);
  }
}

// m < 1 forgets errors as it forgets gradients.
TEST(Drift, the_momentum_stays_within_the_rounding_of_a_few_calls) {
  Scene scene{kernels::find_codec("topk"), find_plan("direct"), kRanks};
  scene.memory = &rule("momentum");
  scene.memory_values = {{0, 0.9}, {2, 1}};
  auto arrays = with_arrays(*scene.memory, zeros<float>(kRanks, kN));
  std::vector<double> exact(kN);
  for (int call = 0; call < kCalls; ++call) {
    const auto& x = vectors_of_call(call);
    const Outcome<float> got = run(scene, x, arrays);
    arrays = got.residual;
    const double m = static_cast<double>(0.9F);
    for (std::size_t i = 0; i < kN; ++i) {
      exact[i] = m * exact[i] + static_cast<double>(x[0][i]);
      ASSERT_NEAR(static_cast<double>(arrays[0][kN + i]), exact[i], 10 * 10 * kUnit)
          << "call " << call << " at " << i;
    }
  }
}

}  // namespace
}  // namespace mq::test
