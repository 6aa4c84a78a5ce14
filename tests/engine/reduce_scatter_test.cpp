// Every codec in a reduce-scatter among threads as ranks, with parts of every shape: the sum of each part at
// its owner, conservation, determinism, the length of messages, damaged messages.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/parted_scene.hpp"

namespace mq::test {
namespace {

template <class T>
void expect_ended(const Outcome<T>& got, const std::string& where) {
  for (std::size_t r = 0; r < got.status.size(); ++r)
    ASSERT_TRUE(got.status[r].ok()) << where << "rank " << r << ": " << got.status[r].text();
  ASSERT_EQ(got.leaked, 0u) << where << "requests or messages left";
}

// The parts, one after the other: the vector that an allreduce would give all ranks.
template <class T>
std::vector<T> joined(const Outcome<T>& got) {
  std::vector<T> all;
  for (const auto& part : got.output) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <class T>
void expect_conserved_parts(const Scene& scene, std::size_t n) {
  const auto x = inputs<T>(scene.ranks, n);
  const auto e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  Outcome<T> got = run(scene, x, e);
  expect_ended(got, scene.describe(n));
  ASSERT_EQ(joined(got).size(), n);
  got.output[0] = joined(got);
  expect_conserved(got, x, e, scene.describe(n));
}

TEST(ReduceScatter, results_and_residuals_add_up_to_inputs_and_residuals) {
  for_each_shape([](const Scene& scene, std::size_t n) {
    expect_conserved_parts<float>(scene, n);
    if (scene.ranks <= 5) expect_conserved_parts<double>(scene, n);
    if (scene.ranks <= 5) expect_conserved_parts<F16>(scene, n);
    if (scene.ranks <= 4) expect_conserved_parts<Bf16>(scene, n);
  });
}

TEST(ReduceScatter, in_place_and_out_of_place_agree) {
  for_each_shape([](Scene scene, std::size_t n) {
    const auto x = inputs<float>(scene.ranks, n);
    for (const bool feedback : {false, true}) {
      scene.feedback = feedback;
      scene.in_place = false;
      const Outcome<float> apart = run(scene, x, zeros<float>(scene.ranks, n));
      scene.in_place = true;
      const Outcome<float> in_place = run(scene, x, zeros<float>(scene.ranks, n));
      expect_ended(in_place, scene.describe(n));
      ASSERT_TRUE(same_bits(joined(apart), joined(in_place))) << scene.describe(n);
      for (std::size_t r = 0; r < x.size(); ++r)
        ASSERT_TRUE(same_bits(apart.residual[r], in_place.residual[r])) << scene.describe(n);
    }
  });
}

// The owner adds its own elements as they are: with a codec that loses nothing, in float, in the order of
// ranks behind its own.
TEST(ReduceScatter, the_owner_encodes_nothing_of_its_own) {
  for_each_shape([](Scene scene, std::size_t n) {
    if (scene.codec->name != "raw") return;
    scene.feedback = false;
    const auto x = inputs<float>(scene.ranks, n);
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    expect_ended(got, scene.describe(n));
    for (std::size_t r = 0; r < x.size(); ++r) {
      const std::size_t begin = r == 0 ? 0 : scene.ends[r - 1];
      for (std::size_t i = 0; i < got.output[r].size(); ++i) {
        float sum = x[r][begin + i];
        for (std::size_t q = 0; q < x.size(); ++q)
          if (q != r) sum += x[q][begin + i];
        ASSERT_EQ(got.output[r][i], sum) << scene.describe(n) << "rank " << r << " at " << i;
      }
    }
  });
}

TEST(ReduceScatter, bits_do_not_depend_on_segments_in_flight_threads_and_delays) {
  for (const Codec& codec : kernels::codecs()) {
    const std::size_t n = 2 * kChunkBytes / 4 + 77;
    Scene scene = scene_of(codec, {n, 0, n / 2 + 5});
    const std::size_t all = scene.ends.back();
    const auto x = inputs<float>(3, all);
    const Outcome<float> expected = run(scene, x, zeros<float>(3, all));
    expect_ended(expected, scene.describe(all));
    for (const auto [pipelines, threads, delay] : {std::array{1, 3, 0}, std::array{16, 1, 5}}) {
      scene.pipelines = pipelines;
      scene.threads = threads;
      scene.delay_seed = static_cast<std::uint64_t>(delay);
      const Outcome<float> got = run(scene, x, zeros<float>(3, all));
      expect_ended(got, scene.describe(all));
      ASSERT_TRUE(same_bits(joined(expected), joined(got))) << scene.describe(all);
      for (std::size_t r = 0; r < 3; ++r)
        ASSERT_TRUE(same_bits(expected.residual[r], got.residual[r])) << scene.describe(all);
    }
  }
}

// Blocks begin anew at each part, so a part is encoded as if it were a vector of its own.
TEST(ReduceScatter, messages_are_as_many_and_as_short_as_promised) {
  for_each_shape([](Scene scene, std::size_t n) {
    const auto x = inputs<float>(scene.ranks, n);
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    expect_ended(got, scene.describe(n));
    std::size_t bound = 0, begin = 0;
    for (const std::size_t end : scene.ends) {
      bound +=
          sizeof(FrameHeader) + scene.codec->wire_bound(end - begin, kernels::Element::f32, scene.params());
      begin = end;
    }
    for (std::size_t r = 0; r < x.size(); ++r) {
      EXPECT_EQ(got.tally[r].messages_sent, static_cast<std::uint64_t>(scene.ranks - 1));
      EXPECT_LE(got.tally[r].sent_bytes, bound) << scene.describe(n);
    }
  });
}

TEST(ReduceScatter, a_damaged_message_is_an_error_of_its_owner_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const std::vector<std::size_t>& counts : {std::vector<std::size_t>{500, 499}, {333, 0, 600, 66}})
      for (const int damage : damages(codec)) {
        Scene scene = scene_of(codec, counts);
        const std::size_t n = scene.ends.back();
        std::atomic<int> messages = 0, victim = -1;
        const auto x = inputs<float>(scene.ranks, n);
        const Outcome<float> sound = run(scene, x, zeros<float>(scene.ranks, n));
        scene.tamper = damage_second(damage, messages, victim);
        const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
        expect_one_victim(got, sound, victim, scene.describe(n) + "damage " + std::to_string(damage));
      }
}

}  // namespace
}  // namespace mq::test
