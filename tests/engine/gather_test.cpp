// Every codec in an allgather among threads as ranks, with parts of every shape: identical bits,
// conservation, determinism, the length of messages, damaged messages, and estimates that all ranks keep.

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
    const std::size_t n = 2 * kChunkBytes / 4 + 77;
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

// memory=ef21: all ranks keep one estimate of the vector of all.
Scene mirror_of(Scene scene) {
  scene.memory = kernels::find_memory_rule("ef21");
  return scene;
}

template <class T>
Vectors<Compute<T>> nothing_known(const Scene& scene) {
  return zeros<Compute<T>>(scene.ranks, scene.ends.back());
}

// The square of the distance between the parts and what rank 0 knows of them.
template <class T>
double squares(const Scene& scene, const Vectors<T>& x, const Outcome<T>& got) {
  double sum = 0;
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t i = 0; i < x[r].size(); ++i) {
      const double d =
          static_cast<double>(x[r][i]) - static_cast<double>(got.residual[0][begin_of(scene, r) + i]);
      sum += d * d;
    }
  return sum;
}

// All ranks know the same, and the result is what they know, between untouched elements.
template <class T>
void expect_known(const Scene& scene, const Outcome<T>& got, const std::string& where) {
  expect_sound(got, where);
  for (std::size_t r = 0; r < got.residual.size(); ++r) {
    ASSERT_TRUE(same_bits(got.residual[r], got.residual[0])) << where << "rank " << r;
    for (std::size_t i = begin_of(scene, r); i < scene.ends[r]; ++i)
      ASSERT_EQ(static_cast<double>(got.output[0][(r + 1) * scene.gap + i]),
                static_cast<double>(static_cast<T>(got.residual[0][i])))
          << where << "at " << i;
  }
  for (std::size_t i = 0; i < scene.gap; ++i) ASSERT_EQ(static_cast<double>(got.output[0][i]), 7.0) << where;
}

template <class T>
void expect_nearer(Scene scene) {
  const Vectors<T> x = parts<T>(scene);
  Vectors<Compute<T>> known = nothing_known<T>(scene);
  const std::string where = scene.describe(scene.ends.back());
  double first = 0, before = std::numeric_limits<double>::infinity();
  for (const auto& part : x)
    for (const T v : part) first += static_cast<double>(v) * static_cast<double>(v);
  for (int call = 0; call < 4; ++call) {
    scene.random_key = static_cast<std::uint64_t>(call + 1);
    scene.in_place = call == 1;
    scene.exact_restart = call == 3;
    if (scene.exact_restart) known = nothing_known<T>(scene);
    const Outcome<T> got = run(scene, x, known);
    expect_known(scene, got, where);
    known = got.residual;
    const double distance = squares(scene, x, got);
    ASSERT_LE(distance, before * (1 + 1e-6) + 1e-12 * first) << where << "call " << call;
    before = distance;
  }
  ASSERT_EQ(before, 0) << where << "the last call is exact";
}

TEST(Allgather, estimates_of_parts_that_stand_still_come_nearer_in_every_call) {
  for_each_gather([](const Scene& plain) {
    const Scene scene = mirror_of(plain);
    if (!scene.codec->contraction(scene.params())) return;
    expect_nearer<float>(scene);
    if (scene.ranks <= 3) expect_nearer<double>(scene);
    if (scene.ranks <= 3) expect_nearer<Bf16>(scene);
  });
}

// One element has an error in proportion to what has changed since the last call, and not to its value.
TEST(Allgather, estimates_need_few_bits_for_parts_that_change_little) {
  Scene scene = mirror_of(gather_of(scene_of(*kernels::find_codec("int4"), {700, 0, 650})));
  Vectors<float> x = parts<float>(scene);
  scene.exact_restart = true;
  const Outcome<float> exact = run(scene, x, nothing_known<float>(scene));
  scene.exact_restart = false;
  for (auto& part : x)
    for (float& v : part) v += 1e-3F * v;
  const Outcome<float> got = run(scene, x, exact.residual);
  expect_known(scene, got, "int4 ");
  const double moved = squares(scene, x, exact);
  EXPECT_LT(squares(scene, x, got), 0.1 * moved);
  EXPECT_LT(2 * got.tally[0].sent_bytes, exact.tally[0].sent_bytes);
}

TEST(Allgather, estimates_outlive_values_that_are_not_finite) {
  for (const Codec& codec : kernels::codecs()) {
    Scene scene = mirror_of(gather_of(scene_of(codec, {130, 0, 700})));
    if (!codec.contraction(scene.params())) continue;
    const std::string where = scene.describe(830);
    const Vectors<float> x = parts<float>(scene);
    Vectors<float> wild = x;
    wild[0][5] = std::numeric_limits<float>::quiet_NaN();
    wild[2][1] = std::numeric_limits<float>::infinity();
    Vectors<float> known = run(scene, x, nothing_known<float>(scene)).residual;
    const Outcome<float> reached = run(scene, wild, known);
    expect_sound(reached, where);
    EXPECT_FALSE(std::isfinite(reached.output[0][scene.gap + 5])) << where;
    EXPECT_FALSE(std::isfinite(reached.output[0][130 + 3 * scene.gap + 1])) << where;
    double before = std::numeric_limits<double>::infinity();
    known = reached.residual;
    for (int call = 0; call < 3; ++call) {
      for (const auto& of_rank : known)
        for (const float v : of_rank) ASSERT_TRUE(std::isfinite(v)) << where;
      const Outcome<float> got = run(scene, x, known);
      expect_known(scene, got, where);
      const double distance = squares(scene, x, got);
      EXPECT_LE(distance, before * (1 + 1e-6) + 1e-9) << where;
      before = distance;
      known = got.residual;
    }
  }
}

TEST(Allgather, a_rank_that_sends_nothing_lets_its_part_stand) {
  Scene scene = mirror_of(gather_of(scene_of(*kernels::find_codec("int8"), {300, 200, 100})));
  const Outcome<float> before = run(scene, parts<float>(scene), nothing_known<float>(scene));
  for (const bool others : {true, false}) {
    scene.skipped_messages = {others ? 0 : 1, 1, others ? 0 : 1};
    const Vectors<float> x = parts<float>(scene, Input::laplace);
    const Outcome<float> got = run(scene, x, before.residual);
    expect_known(scene, got, "int8 ");
    EXPECT_EQ(got.tally[1].sent_bytes, got.tally[1].messages_sent * sizeof(FrameHeader));
    int moved = 0;
    for (std::size_t i = 0; i < 600; ++i) {
      const bool stands = got.residual[0][i] == before.residual[0][i];
      if (i >= 300 && i < 500) {
        EXPECT_TRUE(stands) << i;
      }
      moved += !stands;
    }
    EXPECT_EQ(moved > 350, others) << moved << " of 400 elements";
  }
}

TEST(Allgather, bits_of_estimates_do_not_depend_on_segments_in_flight_threads_and_delays) {
  for (const char* const codec : {"int4", "topk", "natural"}) {
    const std::size_t n = kChunkBytes / 2 + 77;
    Scene scene = mirror_of(gather_of(scene_of(*kernels::find_codec(codec), {n, 0, n / 2 + 5})));
    const Vectors<float> x = parts<float>(scene), known = inputs<float>(1, scene.ends.back(), Input::laplace);
    const Vectors<float> all(3, known[0]);
    const Outcome<float> expected = run(scene, x, all);
    expect_known(scene, expected, codec);
    for (const auto [pipelines, threads, delay] : {std::array{1, 3, 0}, std::array{16, 1, 5}}) {
      scene.pipelines = pipelines;
      scene.threads = threads;
      scene.delay_seed = static_cast<std::uint64_t>(delay);
      const Outcome<float> got = run(scene, x, all);
      expect_known(scene, got, codec);
      ASSERT_TRUE(same_bits(expected.output[0], got.output[0])) << codec;
    }
  }
}

}  // namespace
}  // namespace mq::test
