// Every codec in a reduction to a root among threads as ranks, over both plans: conservation, the output of
// others, the sums of an allreduce where they are exact, determinism, damaged messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/engine/rooted_scene.hpp"

namespace mq::test {
namespace {

// All ranks ended well, and only the root's output is written. The root's result takes rank 0's place.
template <class T>
Outcome<T> sound(const Scene& scene, Outcome<T> got, const std::string& where) {
  const auto root = static_cast<std::size_t>(scene.root);
  for (std::size_t r = 0; r < got.output.size(); ++r) {
    EXPECT_TRUE(got.status[r].ok()) << where << "rank " << r << ": " << got.status[r].text();
    const bool untouched = std::all_of(got.output[r].begin(), got.output[r].end(),
                                       [](const T& v) { return static_cast<double>(v) == 7.0; });
    EXPECT_TRUE(r == root || untouched) << where << "rank " << r << " got a result";
  }
  EXPECT_EQ(got.leaked, 0u) << where;
  std::swap(got.output[0], got.output[root]);
  return got;
}

template <class T>
void expect_reduced(const Scene& scene, std::size_t n) {
  const Vectors<T> x = inputs<T>(scene.ranks, n);
  const Vectors<Compute<T>> e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  const std::string where = scene.describe(n);
  expect_conserved(sound(scene, run(scene, x, e), where), x, e, where);
}

TEST(Reduce, the_root_gets_the_sum_others_nothing_and_nothing_is_lost) {
  for_each_rooted(Collective::reduce, [](const Scene& scene, std::size_t n) {
    expect_reduced<float>(scene, n);
    if (scene.ranks <= 5) expect_reduced<double>(scene, n);
    if (scene.ranks <= 5) expect_reduced<F16>(scene, n);
    if (scene.ranks <= 4) expect_reduced<Bf16>(scene, n);
  });
}

TEST(Reduce, in_place_and_out_of_place_agree) {
  for_each_rooted(Collective::reduce, [](Scene scene, std::size_t n) {
    const Vectors<float> x = inputs<float>(scene.ranks, n);
    const std::string where = scene.describe(n);
    for (const bool feedback : {false, true}) {
      scene.feedback = feedback;
      scene.in_place = false;
      const Outcome<float> apart = sound(scene, run(scene, x, zeros<float>(scene.ranks, n)), where);
      scene.in_place = true;
      const Outcome<float> in_place = sound(scene, run(scene, x, zeros<float>(scene.ranks, n)), where);
      ASSERT_TRUE(same_bits(apart.output[0], in_place.output[0])) << where;
      for (std::size_t r = 0; r < x.size(); ++r)
        ASSERT_TRUE(same_bits(apart.residual[r], in_place.residual[r])) << where;
    }
  });
}

TEST(Reduce, exact_sums_are_those_of_an_allreduce) {
  int tested = 0;
  for (const Codec& codec : kernels::codecs()) {
    if (!codec.exact_sums) continue;
    ++tested;
    for (const int ranks : {2, 3, 5, 8})
      for (const std::uint64_t bytes : kShortAndLong) {
        constexpr std::size_t kN = 3000;
        const Vectors<float> x = inputs<float>(ranks, kN);
        Scene scene = rooted(Collective::reduce, codec, ranks, ranks - 1, bytes),
              whole{&codec, find_plan("direct"), ranks};
        scene.feedback = whole.feedback = false;
        const Outcome<float> all = run(whole, x, zeros<float>(ranks, kN));
        const Outcome<float> got = sound(scene, run(scene, x, zeros<float>(ranks, kN)), scene.describe(kN));
        expect_sound(all, whole.describe(kN));
        EXPECT_TRUE(same_bits(got.output[0], all.output[0])) << scene.describe(kN);
      }
  }
  EXPECT_GT(tested, 0);
}

TEST(Reduce, each_rank_but_the_root_sends_one_vector_in_as_many_messages_as_the_plan_says) {
  for_each_rooted(Collective::reduce, [](const Scene& scene, std::size_t n) {
    const Outcome<float> got = run(scene, inputs<float>(scene.ranks, n), zeros<float>(scene.ranks, n));
    const bool is_tree = scene.plan->name == "reduce_tree";
    for (std::size_t r = 0; r < got.tally.size(); ++r) {
      const bool is_root = static_cast<int>(r) == scene.root;
      const auto messages = static_cast<std::uint64_t>(is_root ? 0 : is_tree ? 1 : scene.ranks - 1);
      EXPECT_EQ(got.tally[r].messages_sent, messages) << scene.describe(n) << r;
    }
  });
}

TEST(Reduce, bits_do_not_depend_on_segments_in_flight_threads_and_delays) {
  for (const Codec& codec : kernels::codecs())
    for (const std::uint64_t bytes : kShortAndLong) {
      constexpr std::size_t kN = 3 * kRootedChunkBytes / 4 + 77;
      Scene scene = rooted(Collective::reduce, codec, 3, 1, bytes);
      const Vectors<float> x = inputs<float>(3, kN);
      const std::string where = scene.describe(kN);
      const Outcome<float> expected = sound(scene, run(scene, x, zeros<float>(3, kN)), where);
      for (const auto [pipelines, threads, delay] : {std::array{1, 3, 0}, std::array{16, 1, 5}}) {
        scene.pipelines = pipelines;
        scene.threads = threads;
        scene.delay_seed = static_cast<std::uint64_t>(delay);
        const Outcome<float> got = sound(scene, run(scene, x, zeros<float>(3, kN)), where);
        ASSERT_TRUE(same_bits(expected.output[0], got.output[0])) << where;
      }
    }
}

TEST(Reduce, a_damaged_message_is_an_error_of_its_receiver_and_of_the_root_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const std::uint64_t bytes : kShortAndLong)
      for (const int ranks : {3, 4, 8})
        for (const int damage : damages(codec)) {
          Scene scene = rooted(Collective::reduce, codec, ranks, 1, bytes);
          std::atomic<int> messages = 0, victim = -1;
          scene.tamper = damage_second(damage, messages, victim);
          const Outcome<float> got = run(scene, inputs<float>(ranks, 999), zeros<float>(ranks, 999));
          const std::string where = scene.describe(999) + std::to_string(damage);
          ASSERT_GE(victim, 0) << where;
          EXPECT_EQ(got.status[static_cast<std::size_t>(victim)].code(), Code::bad_frame) << where;
          EXPECT_FALSE(got.status[1].ok()) << where << ": the result of the root lacks something";
          EXPECT_EQ(got.leaked, 0u) << where;
        }
}

}  // namespace
}  // namespace mq::test
