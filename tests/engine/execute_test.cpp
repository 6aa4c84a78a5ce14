// Every codec over every plan on 2 to 9 and some more ranks (threads): identical bits, conservation,
// determinism, wire bytes, non-finite values, damaged messages.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "mpi_quant/plan/layout.hpp"
#include "tests/engine/scene.hpp"
#include "tests/plan/promises.hpp"

namespace mq::test {
namespace {

template <class T>
void expect_sound_and_conserved(Scene scene, std::size_t n) {
  const auto x = inputs<T>(scene.ranks, n);
  const auto e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  const Outcome<T> got = run(scene, x, e);
  expect_sound(got, scene.describe(n));
  expect_conserved(got, x, e, scene.describe(n));
}

TEST(Execute, all_ranks_hold_the_same_bits_and_nothing_is_lost) {
  for_each_scene([](Scene scene, std::size_t n) {
    expect_sound_and_conserved<float>(scene, n);
    if (scene.ranks <= 5) expect_sound_and_conserved<double>(scene, n);
    // The rounding to the half type, too, is in a residual.
    if (scene.ranks <= 7) expect_sound_and_conserved<F16>(scene, n);
    if (scene.ranks <= 5) expect_sound_and_conserved<Bf16>(scene, n);
  });
}

TEST(Execute, sums_of_half_types_are_rounded_once) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (!scene.codec->lossless) return;
    scene.feedback = false;
    const auto x = inputs<F16>(scene.ranks, n);
    const Outcome<F16> got = run(scene, x, zeros<float>(scene.ranks, n));
    expect_sound(got, scene.describe(n));
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0, magnitude = 0;
      for (const auto& v : x) {
        sum += static_cast<double>(v[i]);
        magnitude += std::abs(static_cast<double>(v[i]));
      }
      // Half an ulp of the result (2^-11 relative, 2^-25 for subnormals), and float's rounding on the way.
      ASSERT_LE(std::abs(static_cast<double>(got.output[0][i]) - sum),
                std::abs(sum) * 0x1p-11 + 0x1p-25 + magnitude * 0x1p-20)
          << scene.describe(n) << "at " << i;
    }
  });
}

// Of long vectors: each codec and plan with one of three ways to run them, in turn, so that each codec and
// each plan meets all three.
TEST(Execute, bits_do_not_depend_on_pipelines_and_threads) {
  constexpr std::array kWays{std::array{1, 5}, std::array{2, 2}, std::array{16, 1}};
  for (std::size_t c = 0; c < kernels::codecs().size(); ++c)
    for (std::size_t p = 0; p < plans().size(); ++p) {
      const Codec& codec = kernels::codecs()[c];
      const PlanRow& plan = plans()[p];
      Scene scene{&codec, &plan, 3};
      scene.per_node = node_sizes(plan, 3)[0];
      const std::size_t n = 5 * kChunkBytes / 4 + 77;
      const auto x = inputs<float>(3, n);
      const Outcome<float> expected = run(scene, x, zeros<float>(3, n));
      scene.pipelines = kWays[(c + p) % kWays.size()][0];
      scene.threads = kWays[(c + p) % kWays.size()][1];
      const Outcome<float> got = run(scene, x, zeros<float>(3, n));
      expect_sound(got, scene.describe(n));
      ASSERT_TRUE(same_bits(expected.output[0], got.output[0])) << scene.describe(n);
      for (std::size_t r = 0; r < 3; ++r)
        ASSERT_TRUE(same_bits(expected.residual[r], got.residual[r])) << scene.describe(n);
      EXPECT_EQ(expected.tally[0].sent_bytes, got.tally[0].sent_bytes);
    }
}

TEST(Execute, in_place_and_out_of_place_agree_with_and_without_feedback) {
  for_each_scene([](Scene scene, std::size_t n) {
    const auto x = inputs<float>(scene.ranks, n);
    for (const bool feedback : {false, true}) {
      scene.feedback = feedback;
      scene.in_place = false;
      const Outcome<float> apart = run(scene, x, zeros<float>(scene.ranks, n));
      scene.in_place = true;
      const Outcome<float> in_place = run(scene, x, zeros<float>(scene.ranks, n));
      expect_sound(in_place, scene.describe(n));
      ASSERT_TRUE(same_bits(apart.output[0], in_place.output[0])) << scene.describe(n);
      for (std::size_t r = 0; r < x.size(); ++r)
        ASSERT_TRUE(same_bits(apart.residual[r], in_place.residual[r])) << scene.describe(n);
    }
  });
}

TEST(Execute, lossless_codecs_give_the_sum_within_the_summation_bound) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (!scene.codec->lossless) return;
    const auto x = inputs<float>(scene.ranks, n, Input::mixed_scales);
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    const double m = (scene.ranks - 1) * 0x1p-24, gamma = m / (1 - m);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0, magnitude = 0;
      for (const auto& v : x) {
        sum += static_cast<double>(v[i]);
        magnitude += std::abs(static_cast<double>(v[i]));
      }
      ASSERT_LE(std::abs(static_cast<double>(got.output[0][i]) - sum), gamma * magnitude)
          << scene.describe(n) << "at " << i;
    }
  });
}

TEST(Execute, results_do_not_depend_on_the_order_of_arrival) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (n < 64) return;
    const auto x = inputs<float>(scene.ranks, n);
    const Outcome<float> prompt = run(scene, x, zeros<float>(scene.ranks, n));
    for (const std::uint64_t delay_seed : {1, 2, 3}) {
      scene.delay_seed = delay_seed;
      const Outcome<float> late = run(scene, x, zeros<float>(scene.ranks, n));
      expect_sound(late, scene.describe(n));
      ASSERT_TRUE(same_bits(prompt.output[0], late.output[0])) << scene.describe(n);
    }
  });
}

// Long vectors: two or four ranks, in turn. Every plan and every codec has both. A codec meets half of the
// plans.
TEST(Execute, many_segments_in_flight_with_delays_are_reduced_once_each) {
  for (std::size_t c = 0; c < kernels::codecs().size(); ++c)
    for (std::size_t p = 0; p < plans().size(); ++p) {
      if ((c + p / 2) % 2 != 0) continue;
      const Codec& codec = kernels::codecs()[c];
      const PlanRow& plan = plans()[p];
      const int ranks = (c / 2 + p) % 2 == 0 ? 2 : 4;
      const std::size_t n = 4 * kChunkBytes / 4 * static_cast<std::size_t>(ranks) + 1234;
      Scene scene{&codec, &plan, ranks};
      scene.per_node = node_sizes(plan, ranks)[0];
      scene.delay_seed = 5;
      const auto x = inputs<float>(ranks, n);
      const Outcome<float> got = run(scene, x, zeros<float>(ranks, n));
      expect_sound(got, scene.describe(n));
      expect_conserved(got, x, zeros<float>(ranks, n), scene.describe(n));
    }
}

TEST(Execute, nonfinite_elements_reach_every_rank_and_spoil_no_other) {
  for_each_scene([](Scene scene, std::size_t n) {
    if (n == 0) return;
    auto x = inputs<float>(scene.ranks, n);
    std::vector<bool> bad(n);
    for (std::size_t r = 0; r < x.size(); r += 2) {
      plant_nonfinite(x[r], seed() + r);
      for (std::size_t i = 0; i < n; ++i)
        if (!std::isfinite(x[r][i])) bad[i] = true;
    }
    const Outcome<float> got = run(scene, x, zeros<float>(scene.ranks, n));
    expect_sound(got, scene.describe(n));
    // One assertion for all elements: one for each took most of this test's time.
    std::size_t wrong = 0;
    const auto right = [&](std::size_t i) {
      return std::isfinite(got.output[0][i]) != bad[i] &&
             std::all_of(got.residual.begin(), got.residual.end(),
                         [&](const auto& e) { return std::isfinite(e[i]); });
    };
    while (wrong < n && right(wrong)) ++wrong;
    ASSERT_EQ(wrong, n) << scene.describe(n) << ": that element is not what it should be";
  });
}

// Vectors that all ranks together send, by what the plan promises of its chunks.
struct VectorsSent {
  double encoded = 0, raw = 0;
};
VectorsSent vectors_sent(const Scene& scene) {
  const Promise& promised = promise(*scene.plan);
  VectorsSent all;
  for (int rank = 0; rank < scene.ranks; ++rank) {
    const Ranks ranks{rank, scene.ranks, scene.per_node, scene.codec->exact_sums};
    all.encoded += promised.sent(ranks);
    all.raw += promised.sent_raw(ranks);
  }
  const double chunks = promised.chunks(scene.ranks);
  return {all.encoded / chunks, all.raw / chunks};
}

TEST(Execute, sends_no_more_than_the_theory_says_plus_headers) {
  for_each_scene([](Scene scene, std::size_t n) {
    const Outcome<float> got = run(scene, inputs<float>(scene.ranks, n), zeros<float>(scene.ranks, n));
    const kernels::Params params = scene.params();
    const auto p = static_cast<double>(scene.ranks);
    const double wire = static_cast<double>(scene.codec->wire_bound(n, kernels::Element::f32, params));
    std::uint64_t sent = 0, messages = 0, received = 0;
    for (const Tally& t : got.tally)
      sent += t.sent_bytes, messages += t.messages_sent, received += t.received_bytes;
    EXPECT_EQ(sent, received) << scene.describe(n);
    const double block_bytes = 64 * 4 + 16,
                 payload = static_cast<double>(sent - messages * sizeof(FrameHeader));
    // All ranks together; a chunk boundary costs at most one block header more.
    const VectorsSent vectors = vectors_sent(scene);
    double theory = vectors.encoded * wire + vectors.raw * static_cast<double>(n * sizeof(float));
    if (scene.plan->name == "grid") {  // columns differ in the number of their owners, and chunks in length
      const int columns = scene.plan->make({0, scene.ranks}).chunks;
      const Layout layout(n, columns, scene.codec->block(params), sizeof(float), scene.codec->whole(params));
      theory = 0;
      for (std::size_t segment = 0; segment < layout.segments(); ++segment)
        for (int c = 0; c < columns; ++c) {
          const double owners = scene.ranks / columns + (c < scene.ranks % columns);
          const std::size_t elements = layout.chunk(segment, static_cast<std::size_t>(c)).n;
          theory += (2 * (p - owners) + owners * (owners - 1)) *
                    static_cast<double>(scene.codec->wire_bound(elements, kernels::Element::f32, params));
        }
    }
    EXPECT_LE(payload, theory + static_cast<double>(messages) * block_bytes) << scene.describe(n);
    // A code whose length depends on the data sends less than its bound of a vector of zeros.
    const std::vector<float> none(n);
    std::vector<std::byte> of_none(static_cast<std::size_t>(wire));
    const kernels::CodecOps& ops = *scene.codec->ops(kernels::Element::f32, kernels::Isa::scalar);
    const bool fixed =
        ops.encode({none.data(), nullptr, kernels::Feedback::none, n, params, of_none.data()}).bytes ==
        of_none.size();
    if (fixed) {
      EXPECT_GE(payload, theory) << scene.describe(n);
    }
  });
}

TEST(Execute, adaptive_sends_one_gap_byte_an_entry_and_few_skips) {
  // An encode of n independent elements keeps n / pi; gaps are geometric with p = 1 / pi, and beyond 127 take
  // another byte: 1 / (1 - (1 - p)^127) bytes an entry. A block has 16 bytes of header, a frame 32.
  const Codec& codec = *kernels::find_codec("adaptive");
  const std::size_t n = 1 << 18;
  for (const PlanRow& plan : plans())
    for (const int ranks : {2, 3, 4, 8}) {
      Scene scene{&codec, &plan, ranks};
      scene.short_blocks = false;
      const Outcome<float> got = run(scene, inputs<float>(ranks, n), zeros<float>(ranks, n));
      const double p = ranks, pi = scene.params().value[0];
      const double encodes = vectors_sent(scene).encoded;
      const double blocks = static_cast<double>(n) / static_cast<double>(codec.block(scene.params())) + p;
      const double theory = encodes * static_cast<double>(n) / pi / (1 - std::pow(1 - 1 / pi, 127));
      double sent = 0, headers = encodes * blocks * 16;
      for (const Tally& t : got.tally) {
        sent += static_cast<double>(t.sent_bytes);
        headers += static_cast<double>(t.messages_sent * sizeof(FrameHeader));
      }
      EXPECT_LE(sent, 1.01 * theory + headers) << scene.describe(n);
      EXPECT_GE(sent, 0.99 * theory) << scene.describe(n);
    }
}

TEST(Execute, topk_stays_below_the_volume_of_ok_topk_at_every_rank_count) {
  // K entries of an encode of all n: each rank sends K (P - 1) / P of them and, as an owner, as many of its
  // sum, however many different elements the ranks chose. A word is 4 bytes. Lower bound: 2 words an entry,
  // once; Ok-Topk, PPoPP 2022: three times that.
  const Codec& codec = *kernels::find_codec("topk");
  for (const double k : {0.001, 0.01, 0.05})
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8}) {
      Scene scene{&codec, nullptr, ranks};
      for (const PlanRow& plan : plans())
        if (plan.name == "direct") scene.plan = &plan;
      scene.short_blocks = false;
      scene.values = {{0, k}, {1, 8192}};
      const std::size_t n = 1 << 19;
      const Outcome<float> got = run(scene, inputs<float>(ranks, n), zeros<float>(ranks, n));
      expect_sound(got, scene.describe(n));
      const double p = ranks, entries = k * static_cast<double>(n), once = entries * (p - 1) / p;
      std::uint64_t all = 0;
      for (const Tally& t : got.tally) {
        all += t.sent_bytes;
        const double words = static_cast<double>(t.sent_bytes) / 4;
        EXPECT_LT(words, 6 * once) << scene.describe(n) << k;
        // Positions of 16 bits, a header of 8 bytes a block, an entry more a block (of k n the ceiling),
        // frames.
        const double blocks = 2 * (static_cast<double>(n) / 8192 / p + 2) * (p - 1);
        const double headers = blocks * (8 + 6) + static_cast<double>(t.messages_sent * sizeof(FrameHeader));
        EXPECT_LE(static_cast<double>(t.sent_bytes), 2 * once * 6 + headers) << scene.describe(n) << k;
      }
      // Not less either: all of them together send 2 (P - 1) K values.
      EXPECT_GE(static_cast<double>(all), 2 * (p - 1) * entries * 5) << scene.describe(n) << k;
    }
}

TEST(Execute, damaged_messages_are_errors_and_never_a_hang) {
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 3, 4, plan.name == "hierarchical" ? 6 : 7})
        for (const int damage : damages(codec)) {
          Scene scene{&codec, &plan, ranks};
          scene.per_node = node_sizes(plan, ranks)[0];
          std::atomic<int> messages = 0;
          std::atomic<int> victim = -1;
          scene.tamper = damage_second(damage, messages, victim);
          const Outcome<float> got = run(scene, inputs<float>(ranks, 999), zeros<float>(ranks, 999));
          const std::string where = scene.describe(999) + "damage " + std::to_string(damage);
          ASSERT_GE(victim, 0) << where;
          const Status& status = got.status[static_cast<std::size_t>(victim)];
          EXPECT_EQ(status.code(), Code::bad_frame) << where << ": " << status.text();
          EXPECT_FALSE(status.text().empty());
          EXPECT_EQ(got.leaked, 0u) << where;
        }
}

// Raw frames, sums between nodes, and what is passed on inside a node: each of the messages in turn.
TEST(Execute, a_damaged_message_of_hierarchical_reaches_all_that_depend_on_it) {
  constexpr int kMessages = 4 * 2 * 3;  // of 4 ranks on nodes of 2, one segment
  Scene scene{kernels::find_codec("onebit"), &plans().back(), 4};
  ASSERT_EQ(scene.plan->name, "hierarchical");
  scene.per_node = 2;
  const auto x = inputs<float>(4, 999);
  const Outcome<float> sound = run(scene, x, zeros<float>(4, 999));
  for (int damaged = 0; damaged < kMessages; ++damaged)
    for (const std::size_t byte : {0, 6}) {  // magic; trouble, as of a peer that gave up
      std::atomic<int> messages = 0;
      std::atomic<int> victim = -1;
      scene.tamper = [&](int, int to, int, Loopback::Message& m) {
        if (messages++ != damaged) return;
        victim = to;
        m[byte] ^= std::byte{1};
      };
      const Outcome<float> got = run(scene, x, zeros<float>(4, 999));
      ASSERT_EQ(messages, kMessages);
      ASSERT_GE(victim, 0);
      EXPECT_EQ(got.status[static_cast<std::size_t>(victim)].code(),
                byte == 0 ? Code::bad_frame : Code::peer_failed)
          << damaged;
      for (std::size_t r = 0; r < 4; ++r)
        if (got.status[r].ok()) {
          EXPECT_TRUE(same_bits(got.output[r], sound.output[0])) << damaged << ", rank " << r;
        }
      EXPECT_EQ(got.leaked, 0u) << damaged;
    }
}

// A residual of any rank, here one that other plans left, is in the result or in a residual after; inside a
// node nothing stays.
TEST(Execute, hierarchical_leaves_residuals_with_the_gatherers_alone) {
  Scene scene{kernels::find_codec("onebit"), &plans().back(), 4};
  scene.per_node = 2;
  const std::size_t n = 64 * 4 * 3;
  const auto x = inputs<float>(4, n);
  const auto e = inputs<float>(4, n, Input::laplace);
  const Outcome<float> got = run(scene, x, e);
  expect_sound(got, "");
  expect_conserved(got, x, e, "");
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t chunk = i / (n / 4);
      EXPECT_TRUE(chunk % 2 == r % 2 || got.residual[r][i] == 0) << "rank " << r << ", at " << i;
    }
}

}  // namespace
}  // namespace mq::test
