// Every codec in an allgather among threads as ranks, with parts of every shape: identical bits,
// conservation, determinism, the length of messages, damaged messages.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/parted_scene.hpp"

namespace mq::test {
namespace {

std::size_t begin_of(const Scene& scene, std::size_t r) { return r == 0 ? 0 : scene.ends[r - 1]; }

// A part for each rank.
template <class T>
Vectors<T> parts(const Scene& scene, Input kind = Input::normal) {
  Vectors<T> x = inputs<T>(scene.ranks, scene.ends.back(), kind);
  for (std::size_t r = 0; r < x.size(); ++r) x[r].resize(scene.ends[r] - begin_of(scene, r));
  return x;
}

template <class T>
Vectors<T> no_residuals(const Vectors<T>& x) {
  Vectors<T> e;
  for (const auto& part : x) e.emplace_back(part.size());
  return e;
}

Scene gather_of(Scene scene) {
  scene.plan = plan_of(Collective::allgather);
  scene.gathers = true;
  scene.gap = scene.ends[0] % 3;
  return scene;
}

template <class F>
void for_each_gather(const F& property) {
  for_each_shape([&](const Scene& scene, std::size_t) { property(gather_of(scene)); });
}

// A part and its old residual are what arrives and what its sender still has.
template <class T>
void expect_gathered(const Scene& scene) {
  const Vectors<T> x = parts<T>(scene);
  const Vectors<Compute<T>> e = parts<Compute<T>>(scene, Input::laplace);
  const Outcome<T> got = run(scene, x, e);
  const std::string where = scene.describe(scene.ends.back());
  expect_sound(got, where);
  constexpr double kUnit = static_cast<double>(std::numeric_limits<Compute<T>>::epsilon());
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t i = 0; i < x[r].size(); ++i) {
      const auto arrived = static_cast<double>(got.output[0][begin_of(scene, r) + (r + 1) * scene.gap + i]);
      const auto mine = static_cast<double>(x[r][i]), waited = static_cast<double>(e[r][i]),
                 waits = static_cast<double>(got.residual[r][i]);
      const double magnitude = std::abs(arrived) + std::abs(mine) + std::abs(waited) + std::abs(waits);
      ASSERT_NEAR(mine + waited, arrived + waits, 2 * kUnit * magnitude)
          << where << "rank " << r << " at " << i;
    }
  for (std::size_t i = 0; i < scene.gap; ++i)
    ASSERT_EQ(static_cast<double>(got.output[0][i]), 7.0) << where << "between the parts";
}

TEST(Allgather, all_ranks_hold_the_same_bits_and_nothing_is_lost) {
  for_each_gather([](const Scene& scene) {
    expect_gathered<float>(scene);
    if (scene.ranks <= 5) expect_gathered<double>(scene);
    if (scene.ranks <= 5) expect_gathered<F16>(scene);
    if (scene.ranks <= 4) expect_gathered<Bf16>(scene);
  });
}

TEST(Allgather, in_place_and_out_of_place_agree_and_messages_keep_their_bounds) {
  for_each_gather([](Scene scene) {
    const Vectors<float> x = parts<float>(scene);
    const std::string where = scene.describe(scene.ends.back());
    for (const bool feedback : {false, true}) {
      scene.feedback = feedback;
      scene.in_place = false;
      const Outcome<float> apart = run(scene, x, no_residuals(x));
      scene.in_place = true;
      const Outcome<float> in_place = run(scene, x, no_residuals(x));
      expect_sound(in_place, where);
      ASSERT_TRUE(same_bits(apart.output[0], in_place.output[0])) << where;
      for (std::size_t r = 0; r < x.size(); ++r) {
        ASSERT_TRUE(same_bits(apart.residual[r], in_place.residual[r])) << where;
        const std::size_t frame =
            sizeof(FrameHeader) + scene.codec->wire_bound(x[r].size(), kernels::Element::f32, scene.params());
        EXPECT_EQ(apart.tally[r].messages_sent, x.size() - 1) << where;
        EXPECT_LE(apart.tally[r].sent_bytes, (x.size() - 1) * frame) << where;
      }
    }
  });
}

TEST(Allgather, bits_do_not_depend_on_segments_in_flight_threads_and_delays) {
  for (const Codec& codec : kernels::codecs()) {
    const std::size_t n = 3 * kChunkBytes / 4 + 77;
    Scene scene = gather_of(scene_of(codec, {n, 0, n / 2 + 5}));
    const Vectors<float> x = parts<float>(scene);
    const Outcome<float> expected = run(scene, x, no_residuals(x));
    expect_sound(expected, scene.describe(n));
    for (const auto [pipelines, threads, delay] : {std::array{1, 3, 0}, std::array{16, 1, 5}}) {
      scene.pipelines = pipelines;
      scene.threads = threads;
      scene.delay_seed = static_cast<std::uint64_t>(delay);
      const Outcome<float> got = run(scene, x, no_residuals(x));
      expect_sound(got, scene.describe(n));
      ASSERT_TRUE(same_bits(expected.output[0], got.output[0])) << scene.describe(n);
    }
  }
}

TEST(Allgather, a_damaged_message_is_an_error_of_its_receiver_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const std::vector<std::size_t>& counts : {std::vector<std::size_t>{500, 499}, {333, 0, 600, 66}})
      for (const int damage : damages(codec)) {
        Scene scene = gather_of(scene_of(codec, counts));
        const Vectors<float> x = parts<float>(scene);
        const Outcome<float> sound = run(scene, x, no_residuals(x));
        std::atomic<int> messages = 0, victim = -1;
        scene.tamper = damage_second(damage, messages, victim);
        const Outcome<float> got = run(scene, x, no_residuals(x));
        expect_one_victim(got, sound, victim, scene.describe(scene.ends.back()) + std::to_string(damage));
      }
}

}  // namespace
}  // namespace mq::test
