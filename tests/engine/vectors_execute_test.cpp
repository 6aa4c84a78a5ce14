// Several vectors in one allreduce, every codec over every plan, among threads as ranks: identical bits,
// conservation in each vector, damaged messages. vectors_test.cpp has the frames themselves.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

// Ends of vectors: short ones, empty ones, some longer than what a rank owns.
std::vector<std::vector<std::size_t>> shapes() {
  return {{0}, {1}, {5, 5, 6}, {0, 64, 64, 131, 140, 141}, {700, 701, 1400, 5000}};
}

// All lengths of a group, so that inputs and residuals are one array each.
template <class F>
void for_each_group(const F& property) {
  const auto all = shapes();
  const auto number = [&](std::size_t) { return std::array<std::size_t, 5>{0, 1, 2, 3, 4}; };
  for_each_scene_in_turn(rank_counts(), number, [&](Scene scene, std::size_t shape) {
    scene.vector_ends = all[shape];
    property(scene, scene.vector_ends.back());
  });
}

template <class T>
void expect_conserved_group(const Scene& scene, std::size_t n) {
  const auto x = inputs<T>(scene.ranks, n);
  const auto e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  const Outcome<T> got = run(scene, x, e);
  expect_sound(got, scene.describe(n));
  expect_conserved(got, x, e, scene.describe(n));
}

TEST(SeveralVectors, all_ranks_hold_the_same_bits_and_nothing_is_lost) {
  for_each_group([](const Scene& scene, std::size_t n) {
    expect_conserved_group<float>(scene, n);
    if (scene.ranks <= 5) expect_conserved_group<double>(scene, n);
    if (scene.ranks <= 5) expect_conserved_group<F16>(scene, n);
    if (scene.ranks <= 4) expect_conserved_group<Bf16>(scene, n);
  });
}

TEST(SeveralVectors, bits_do_not_depend_on_places_segments_in_flight_threads_and_delays) {
  std::size_t number = 0;
  for (const Codec& codec : kernels::codecs()) {
    const PlanRow& plan = plans()[number++ % plans().size()];
    Scene scene{&codec, &plan, 3};
    scene.per_node = node_sizes(plan, 3)[0];
    const std::size_t n = 3 * kChunkBytes / 4 + 77;
    scene.vector_ends = {n / 3, n / 3 + 11, n - 4, n};
    const auto x = inputs<float>(3, n);
    const Outcome<float> expected = run(scene, x, zeros<float>(3, n));
    scene.in_place = true;
    for (const auto [pipelines, threads, delay] : {std::array{1, 3, 0}, std::array{16, 1, 5}}) {
      scene.pipelines = pipelines;
      scene.threads = threads;
      scene.delay_seed = static_cast<std::uint64_t>(delay);
      const Outcome<float> got = run(scene, x, zeros<float>(3, n));
      expect_sound(got, scene.describe(n));
      ASSERT_TRUE(same_bits(expected.output[0], got.output[0])) << scene.describe(n);
      for (std::size_t r = 0; r < 3; ++r)
        ASSERT_TRUE(same_bits(expected.residual[r], got.residual[r])) << scene.describe(n);
    }
  }
}

// Those that are raw lose nothing, and the others have the bits that they have beside others.
TEST(SeveralVectors, some_may_be_raw) {
  for_each_scene_in_turn(
      rank_counts(),
      [](std::size_t) {
        return std::array{0, 1};
      },
      [](Scene scene, int shape) {
        scene.vector_ends = shape == 0 ? std::vector<std::size_t>{3, 40, 900, 900, 901, 960}
                                       : std::vector<std::size_t>{5, 5, 60, 61};
        scene.feedback = false;
        const std::size_t n = scene.vector_ends.back();
        const auto x = inputs<float>(scene.ranks, n);
        const Outcome<float> coded = run(scene, x, zeros<float>(scene.ranks, n));
        scene.raw_below = 64;
        const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
        expect_sound(got, scene.describe(n));
        std::size_t first = 0;
        for (const std::size_t end : scene.vector_ends) {
          const bool is_raw = end - first < scene.raw_below;
          for (std::size_t i = first; i < end; ++i) {
            double sum = 0, most = 0;
            for (const auto& of_rank : x) {
              sum += static_cast<double>(of_rank[i]);
              most += std::abs(static_cast<double>(of_rank[i]));
            }
            if (is_raw) {
              ASSERT_NEAR(got.output[0][i], sum, 1e-6 * most) << scene.describe(n) << i;
            } else {
              ASSERT_EQ(got.output[0][i], coded.output[0][i]) << scene.describe(n) << i;
            }
          }
          first = end;
        }
      });
}

TEST(SeveralVectors, damaged_messages_are_errors_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int damage : damages(codec)) {
        Scene scene{&codec, &plan, plan.name == "hierarchical" ? 6 : 4};
        scene.per_node = node_sizes(plan, scene.ranks)[0];
        scene.vector_ends = {300, 333, 999};
        std::atomic<int> messages = 0, victim = -1;
        scene.tamper = damage_second(damage, messages, victim);
        const Outcome<float> got =
            run(scene, inputs<float>(scene.ranks, 999), zeros<float>(scene.ranks, 999));
        const std::string where = scene.describe(999) + "damage " + std::to_string(damage);
        ASSERT_GE(victim, 0) << where;
        EXPECT_EQ(got.status[static_cast<std::size_t>(victim)].code(), Code::bad_frame) << where;
        EXPECT_EQ(got.leaked, 0u) << where;
      }
}

}  // namespace
}  // namespace mq::test
