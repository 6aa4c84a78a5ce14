// Every codec in a broadcast among threads as ranks, over both plans: identical bits on all ranks,
// conservation, determinism, the number and length of messages, damaged messages.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/engine/rooted_scene.hpp"

namespace mq::test {
namespace {

// The vector of the root and its old residual are what arrives and what the root still has.
template <class T>
void expect_broadcast(const Scene& scene, std::size_t n) {
  const Vectors<T> x = inputs<T>(scene.ranks, n);
  const Vectors<Compute<T>> e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  const Outcome<T> got = run(scene, x, e);
  const std::string where = scene.describe(n);
  expect_sound(got, where);
  constexpr double kUnit = static_cast<double>(std::numeric_limits<Compute<T>>::epsilon());
  const auto root = static_cast<std::size_t>(scene.root);
  for (std::size_t i = 0; i < n; ++i) {
    const auto arrived = static_cast<double>(got.output[0][i]), sent = static_cast<double>(x[root][i]),
               waited = static_cast<double>(e[root][i]), waits = static_cast<double>(got.residual[root][i]);
    const double magnitude = std::abs(arrived) + std::abs(sent) + std::abs(waited) + std::abs(waits);
    ASSERT_NEAR(sent + waited, arrived + waits, 2 * kUnit * magnitude) << where << "at " << i;
  }
  for (std::size_t r = 0; r < x.size(); ++r)
    if (r != root) {
      ASSERT_TRUE(same_bits(got.residual[r], e[r])) << where << "rank " << r;
    }
}

TEST(Bcast, all_ranks_hold_the_same_bits_and_nothing_is_lost) {
  for_each_rooted(Collective::bcast, [](const Scene& scene, std::size_t n) {
    expect_broadcast<float>(scene, n);
    if (scene.ranks <= 5) expect_broadcast<double>(scene, n);
    if (scene.ranks <= 5) expect_broadcast<F16>(scene, n);
    if (scene.ranks <= 4) expect_broadcast<Bf16>(scene, n);
  });
}

TEST(Bcast, without_feedback_both_plans_and_all_roots_give_what_one_encode_decodes_to) {
  for (const Codec& codec : kernels::codecs()) {
    if (codec.unbiased(kernels::preset_params(codec))) continue;  // its random numbers differ with the cuts
    constexpr std::size_t kN = 64 * 12;                           // whole blocks in each chunk
    std::vector<float> expected;
    for (const std::uint64_t bytes : kShortAndLong)
      for (const int root : {0, 1, 3}) {
        Scene scene = rooted(Collective::bcast, codec, 4, root, bytes);
        scene.feedback = false;
        Vectors<float> x = inputs<float>(4, kN);
        x[static_cast<std::size_t>(root)] = inputs<float>(1, kN)[0];
        const Outcome<float> got = run(scene, x, zeros<float>(4, kN));
        expect_sound(got, scene.describe(kN));
        if (expected.empty()) expected = got.output[0];
        if (codec.lossless) {
          ASSERT_TRUE(same_bits(got.output[0], x[static_cast<std::size_t>(root)])) << scene.describe(kN);
        }
        if (codec.block(scene.params()) == 64 && !codec.whole(scene.params())) {
          ASSERT_TRUE(same_bits(got.output[0], expected)) << scene.describe(kN) << "root " << root;
        }
      }
  }
}

TEST(Bcast, messages_are_as_many_and_as_long_as_the_plan_says) {
  for_each_rooted(Collective::bcast, [](const Scene& scene, std::size_t n) {
    const Vectors<float> x = inputs<float>(scene.ranks, n);
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    const std::string where = scene.describe(n);
    expect_sound(got, where);
    const auto p = static_cast<std::size_t>(scene.ranks);
    const bool is_spread = scene.plan->name == "bcast_spread";
    std::size_t messages = 0;
    for (std::size_t r = 0; r < p; ++r) {
      messages += got.tally[r].messages_sent;
      const Layout layout(n, is_spread ? scene.ranks - 1 : 1, scene.codec->block(scene.params()), 4,
                          scene.codec->whole(scene.params()), true);
      const std::size_t frame =
          sizeof(FrameHeader) +
          scene.codec->wire_bound(layout.max_chunk(), kernels::Element::f32, scene.params());
      EXPECT_LE(got.tally[r].sent_bytes, got.tally[r].messages_sent * frame) << where;
    }
    EXPECT_EQ(messages, is_spread ? (p - 1) * (p - 1) : p - 1) << where;
  });
}

TEST(Bcast, bits_do_not_depend_on_segments_in_flight_threads_and_delays) {
  for (const Codec& codec : kernels::codecs())
    for (const std::uint64_t bytes : kShortAndLong) {
      constexpr std::size_t kN = 3 * kRootedChunkBytes / 4 + 77;
      Scene scene = rooted(Collective::bcast, codec, 3, 1, bytes);
      const Vectors<float> x = inputs<float>(3, kN);
      const Outcome<float> expected = run(scene, x, zeros<float>(3, kN));
      expect_sound(expected, scene.describe(kN));
      for (const auto [pipelines, threads, delay] : {std::array{1, 3, 0}, std::array{16, 1, 5}}) {
        scene.pipelines = pipelines;
        scene.threads = threads;
        scene.delay_seed = static_cast<std::uint64_t>(delay);
        const Outcome<float> got = run(scene, x, zeros<float>(3, kN));
        expect_sound(got, scene.describe(kN));
        ASSERT_TRUE(same_bits(expected.output[0], got.output[0])) << scene.describe(kN);
      }
    }
}

// Who passes a damaged message on has an error, and so have those who get it from there.
TEST(Bcast, a_damaged_message_is_an_error_of_all_who_get_it_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const std::uint64_t bytes : kShortAndLong)
      for (const int ranks : {3, 4, 8})
        for (const int damage : damages(codec)) {
          Scene scene = rooted(Collective::bcast, codec, ranks, 1, bytes);
          const Vectors<float> x = inputs<float>(ranks, 999);
          const Outcome<float> sound = run(scene, x, zeros<float>(ranks, 999));
          std::atomic<int> messages = 0, victim = -1;
          scene.tamper = damage_second(damage, messages, victim);
          const Outcome<float> got = run(scene, x, zeros<float>(ranks, 999));
          const std::string where = scene.describe(999) + std::to_string(damage);
          ASSERT_GE(victim, 0) << where;
          EXPECT_FALSE(got.status[static_cast<std::size_t>(victim)].ok()) << where;
          for (std::size_t r = 0; r < got.status.size(); ++r)
            if (got.status[r].ok()) {
              EXPECT_TRUE(same_bits(got.output[r], sound.output[r])) << where << ", rank " << r;
            }
          EXPECT_TRUE(got.status[1].ok()) << where << ": the root gets nothing";
          EXPECT_EQ(got.leaked, 0u) << where;
        }
}

// memory=ef21: all ranks keep one estimate of the vector, whoever is the root.
TEST(Bcast, estimates_come_nearer_in_every_call_from_any_root) {
  for_each_rooted(Collective::bcast, [](Scene scene, std::size_t n) {
    if (!scene.codec->contraction(scene.params())) return;
    scene.memory = kernels::find_memory_rule("ef21");
    const std::string where = scene.describe(n);
    Vectors<float> x = inputs<float>(scene.ranks, n), known = zeros<float>(scene.ranks, n);
    const std::vector<float> vector = x[0];
    double before = std::numeric_limits<double>::infinity();
    for (int call = 0; call < 3; ++call) {
      scene.random_key = static_cast<std::uint64_t>(call + 1);
      scene.root = (scene.root + 1) % scene.ranks;
      x[static_cast<std::size_t>(scene.root)] = vector;
      const Outcome<float> got = run(scene, x, known);
      expect_sound(got, where);
      double distance = 0;
      for (std::size_t r = 0; r < x.size(); ++r)
        ASSERT_TRUE(same_bits(got.residual[r], got.output[0])) << where << "rank " << r;
      for (std::size_t i = 0; i < n; ++i) {
        const double d = static_cast<double>(vector[i]) - static_cast<double>(got.output[0][i]);
        distance += d * d;
      }
      ASSERT_LE(distance, before * (1 + 1e-6) + 1e-9) << where << "call " << call;
      before = distance;
      known = got.residual;
    }
  });
}

}  // namespace
}  // namespace mq::test
