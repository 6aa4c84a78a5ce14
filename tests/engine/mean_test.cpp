// Means in the executor: for every codec, plan and memory rule the mean is the sum divided by the number of
// ranks, bit for bit, and residuals are the same as for the sum. Half types are divided before they are
// rounded.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/engine/mean.hpp"
#include "tests/engine/parted_scene.hpp"
#include "tests/engine/rooted_scene.hpp"

namespace mq::test {
namespace {

// Runs the scene twice. The sum is made by code that has no divisor.
template <class T>
void expect_divided_sum(Scene scene, std::size_t n, bool on_all_ranks = true) {
  const Vectors<T> x = inputs<T>(scene.ranks, n);
  auto e = inputs<T>(scene.ranks, n, Input::laplace);
  const auto sums = e[0];
  for (auto& arrays : e) {  // of the rule; the second one of estimates is the same on all ranks
    const auto residual = arrays;
    for (int a = 1; a < scene.memory->arrays; ++a) {
      const auto& more = a == 1 && scene.memory->keeps_estimates ? sums : residual;
      arrays.insert(arrays.end(), more.begin(), more.end());
    }
  }
  Outcome<T> sum = run(scene, x, e);
  scene.mean = true;
  const Outcome<T> mean = run(scene, x, e);
  const std::string where = scene.describe(n);
  if (on_all_ranks) expect_sound(mean, where);
  for (std::size_t r = 0; r < x.size(); ++r) {
    ASSERT_TRUE(mean.status[r].ok()) << where << mean.status[r].text();
    if (!lacks_output(scene, static_cast<int>(r)))
      divide(sum.output[r].data(), sum.output[r].size(), element_of<T>, scene.ranks);
    ASSERT_TRUE(same_bits(mean.output[r], sum.output[r])) << where << " rank " << r;
    ASSERT_TRUE(same_bits(mean.residual[r], sum.residual[r])) << where << " rank " << r;
  }
}

TEST(Mean, is_the_sum_divided_and_leaves_the_residuals_of_the_sum) {
  for_each_scene([](Scene scene, std::size_t n) {
    expect_divided_sum<float>(scene, n);
    if (scene.ranks <= 5) expect_divided_sum<double>(scene, n);
  });
}

TEST(Mean, with_every_memory_rule) {
  for (const kernels::MemoryRule& rule : kernels::memory_rules())
    for (const PlanRow& plan : plans())
      for (const char* const codec : {"int8", "onebit", "topk"}) {
        if (kSanitized && codec[0] != "iot"[(rule.id + plan.id) % 3]) continue;  // one of them, in turn
        Scene scene{kernels::find_codec(codec), &plan, 3};
        scene.per_node = node_sizes(plan, 3)[0];
        scene.memory = &rule;
        expect_divided_sum<float>(scene, 700);
        scene.in_place = true;
        scene.skipped_messages = {0, scene.call_memory(kernels::Element::f32).messages(), 0};
        if (rule.keeps_estimates) expect_divided_sum<float>(scene, 700);
        scene.skipped_messages = {};
        scene.exact_restart = rule.keeps_estimates;
        expect_divided_sum<float>(scene, 700);
      }
}

TEST(Mean, of_parts_and_of_reductions_to_a_root) {
  for_each_shape([](const Scene& scene, std::size_t n) { expect_divided_sum<float>(scene, n, false); });
  for_each_rooted(Collective::reduce,
                  [](const Scene& scene, std::size_t n) { expect_divided_sum<float>(scene, n, false); });
}

// Results of 8 MiB and more are written around the caches, unless they are divided.
TEST(Mean, of_long_vectors_in_many_segments) {
  constexpr std::size_t kN = (std::size_t{8} << 20) / sizeof(float) + 1234;
  for (const char* const codec : {"int8", "raw"})
    for (const char* const plan : {"direct", "allgather"})
      for (const bool in_place : {false, true}) {
        if (kSanitized && in_place != (codec == std::string_view("raw"))) continue;
        Scene scene{kernels::find_codec(codec), find_plan(plan), 2};
        scene.short_blocks = false;
        scene.in_place = in_place;
        expect_divided_sum<float>(scene, kN);
      }
}

template <class T>
void expect_mean_of_halves(Scene scene, std::size_t n) {
  scene.mean = true;
  const auto x = inputs<T>(scene.ranks, n);
  const auto e = inputs<float>(scene.ranks, n, Input::laplace);
  const Outcome<T> got = run(scene, x, e);
  expect_sound(got, scene.describe(n));
  expect_conserved(got, x, e, scene.describe(n), scene.ranks);
}

// The loss of the rounding is in a residual as well, in the unit of the vectors.
TEST(Mean, of_half_types_loses_nothing) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (scene.ranks <= 5) expect_mean_of_halves<F16>(scene, n);
    if (scene.ranks <= 5) expect_mean_of_halves<Bf16>(scene, n);
  });
}

TEST(Mean, of_half_types_is_there_where_their_sum_is_too_large) {
  for (const PlanRow& plan : plans()) {
    Scene scene{kernels::find_codec("zerorun"), &plan, 4};
    scene.per_node = node_sizes(plan, 4)[0];
    scene.feedback = false;
    const Vectors<F16> x(4, std::vector<F16>(300, F16(40000)));
    EXPECT_TRUE(std::isinf(static_cast<double>(run(scene, x, zeros<float>(4, 300)).output[0][7])));
    scene.mean = true;
    const Outcome<F16> got = run(scene, x, zeros<float>(4, 300));
    expect_sound(got, scene.describe(300));
    for (const F16 v : got.output[0]) ASSERT_EQ(static_cast<double>(v), 40000) << scene.describe(300);
  }
}

// Else a plan would send divided values on.
TEST(Mean, no_plan_encodes_what_its_last_decode_has_written) {
  const auto check = [](const Plan& plan, const std::string& where) {
    const PlanIndex index = index_of(plan);
    std::vector<bool> is_over(static_cast<std::size_t>(plan.chunks));
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      if (step.op == Op::exchange) continue;
      ASSERT_FALSE(is_over[static_cast<std::size_t>(step.chunk)]) << where << " step " << i;
      if (index.final[i]) is_over[static_cast<std::size_t>(step.chunk)] = true;
    }
  };
  for (int ranks = 2; ranks <= (kSanitized ? 9 : 33); ++ranks)
    for (int rank = 0; rank < ranks; ++rank)
      for (const bool encodes_own : {false, true}) {
        const std::string where = std::to_string(rank) + " of " + std::to_string(ranks);
        for (const PlanRow& plan : plans())
          for (int per_node = 1; per_node <= ranks; ++per_node)
            if (ranks % per_node == 0)
              check(plan.make({rank, ranks, per_node, encodes_own}), std::string(plan.name) + " " + where);
        for (const Collective collective : {Collective::reduce_scatter, Collective::reduce})
          for (const std::uint64_t bytes : kShortAndLong)
            for (const bool carries_own : {false, true})
              check(plan_of(collective, bytes, ranks)
                        ->make({rank, ranks, 1, encodes_own, carries_own, ranks / 2}),
                    std::string(name(collective)) + " " + where);
      }
}

TEST(Mean, divides_whatever_the_address_and_keeps_nan_and_inf) {
  const auto check = []<class T>(T) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, sizeof(T)}) {
      const std::vector<T> x{T{1},
                             T{-3},
                             std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::denorm_min(),
                             T{-0.0}};
      Guarded<T> in(x.size() * sizeof(T), shift);
      in.set(x);
      divide(in.data(), x.size(), element_of<T>, 3);
      EXPECT_TRUE(in.intact());
      const std::vector<T> y = in.get(x.size());
      EXPECT_EQ(y[0], T{1} / T{3});
      EXPECT_EQ(y[1], T{-1});
      EXPECT_TRUE(std::isinf(y[2]) && std::isnan(y[3]));
      EXPECT_EQ(y[4], T{0});
      EXPECT_TRUE(y[5] == T{0} && std::signbit(y[5]));
    }
  };
  check(float{});
  check(double{});
}

}  // namespace
}  // namespace mq::test
