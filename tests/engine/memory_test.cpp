// Memory rules over every codec, plan and number of ranks: identical bits, what each rule conserves, the
// codec's wire, values that are not finite, and the mathematics of each rule.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/memory_scene.hpp"

namespace mq::test {
namespace {

using kernels::MemoryRule;

const MemoryRule& rule(std::string_view name) { return *kernels::find_memory_rule(name); }

// u' = m u + c x, rounded as the rule rounds.
template <class T>
Vectors<T> momenta(const Vectors<T>& u, const Vectors<T>& x, double m, double c = 1) {
  Vectors<T> newest = x;
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t i = 0; i < x[r].size(); ++i)
      newest[r][i] = static_cast<T>(m) * u[r][i] + static_cast<T>(c) * x[r][i];
  return newest;
}

// Under sanitizers each rule with a third of the codecs, in turn.
TEST(Memory, all_ranks_hold_the_same_bits_with_every_rule_in_every_call) {
  for (const MemoryRule& of : kernels::memory_rules())
    for_each_scene_of(of, [&](const Scene& scene, std::size_t n) {
      if (kSanitized && (of.id + scene.codec->id) % 3 != 0) return;
      auto arrays = with_arrays(of, zeros<float>(scene.ranks, n));
      for (int call = 0; call < (kSanitized ? 2 : 3); ++call) {
        const Outcome<float> got = run(scene, inputs<float>(scene.ranks, n), arrays);
        expect_sound(got, scene.describe(n));
        arrays = got.residual;
      }
    });
}

TEST(Memory, none_gives_what_no_key_gives_and_touches_no_array) {
  for_each_scene_of(rule("none"), [](Scene scene, std::size_t n) {
    const auto x = inputs<float>(scene.ranks, n);
    const auto e = inputs<float>(scene.ranks, n, Input::laplace);
    const Outcome<float> got = run(scene, x, e);
    scene.memory = &kernels::carry_rule();
    scene.feedback = false;
    expect_same(got, run(scene, x, e), scene.describe(n));
  });
}

template <class T>
void expect_carry(Scene scene, std::size_t n) {
  const auto x = inputs<T>(scene.ranks, n);
  const auto e = inputs<Compute<T>>(scene.ranks, n, Input::laplace);
  scene.memory_values = {{0, 1}};
  const Outcome<T> got = run(scene, x, e);
  scene.memory = &kernels::carry_rule();
  const Outcome<T> expected = run(scene, x, e);
  expect_same(got, expected, scene.describe(n));
  for (std::size_t r = 0; r < x.size(); ++r)
    ASSERT_EQ(got.tally[r].sent_bytes, expected.tally[r].sent_bytes) << scene.describe(n);
}

TEST(Memory, decay_by_1_is_carry_bit_for_bit) {
  for_each_scene_of(rule("decay"), [](const Scene& scene, std::size_t n) {
    expect_carry<float>(scene, n);
    if (scene.ranks <= 4) expect_carry<double>(scene, n);
    if (scene.ranks == 3) expect_carry<F16>(scene, n);
  });
}

TEST(Memory, decay_keeps_the_sum_of_vectors_and_decayed_residuals) {
  for_each_scene_of(rule("decay"), [](Scene scene, std::size_t n) {
    scene.memory_values = {{0, 0.75}};
    const auto x = inputs<float>(scene.ranks, n);
    auto e = inputs<float>(scene.ranks, n, Input::laplace);
    const Outcome<float> got = run(scene, x, e);
    expect_sound(got, scene.describe(n));
    for (auto& of_rank : e)
      for (float& v : of_rank) v *= 0.75f;
    expect_conserved(got, x, e, scene.describe(n));
  });
}

TEST(Memory, decay_by_0_forgets) {
  for_each_scene_of(rule("decay"), [](Scene scene, std::size_t n) {
    scene.memory_values = {{0, 0}};
    const auto x = inputs<float>(scene.ranks, n);
    // Positive: a residual of -0 would make an element of +0 differ from one without a residual.
    const Outcome<float> got = run(scene, x, inputs<float>(scene.ranks, n, Input::one_sided));
    scene.memory = &kernels::carry_rule();
    expect_same(got, run(scene, x, zeros<float>(scene.ranks, n)), scene.describe(n));
  });
}

// Over calls nothing is lost: all momenta of all calls are in the results or in the residual.
TEST(Memory, momentum_delivers_every_momentum_once) {
  for (const double masked : {0.0, 1.0})
    for_each_scene_of(rule("momentum"), [&](Scene scene, std::size_t n) {
      scene.memory_values = {{0, 0.75}, {2, masked}};
      auto arrays = with_arrays(*scene.memory, inputs<float>(scene.ranks, n, Input::laplace));
      for (int call = 0; call < 2; ++call) {
        const auto x = inputs<float>(scene.ranks, n, call == 0 ? Input::normal : Input::laplace);
        const auto e = array_of(arrays, 0, n);
        const Outcome<float> got = run(scene, x, arrays);
        expect_sound(got, scene.describe(n));
        const auto newest = momenta(array_of(arrays, 1, n), x, 0.75);
        Outcome<float> sums = got;
        sums.residual = array_of(got.residual, 0, n);
        expect_conserved(sums, newest, e, scene.describe(n));
        for (std::size_t r = 0; r < x.size() && masked == 1; ++r)
          ASSERT_TRUE(same_bits(array_of(got.residual, 1, n)[r], newest[r])) << scene.describe(n);
        arrays = got.residual;
      }
    });
}

// What a rank's own encode leaves out is known where no other loss is added to the residual: with allgather.
TEST(Memory, momentum_of_sent_elements_becomes_zero_and_of_others_remains) {
  for (const Codec& codec : kernels::codecs())
    for (const int ranks : {2, 3, 5}) {
      const std::size_t n = 5000;
      Scene scene{&codec, find_plan("allgather"), ranks};
      scene.memory = &rule("momentum");
      const auto x = inputs<float>(ranks, n);
      auto arrays = with_arrays(*scene.memory, inputs<float>(ranks, n, Input::laplace));
      const auto e = array_of(arrays, 0, n);
      const Outcome<float> got = run(scene, x, arrays);
      const auto newest = momenta(zeros<float>(ranks, n), x, 0.9);
      for (std::size_t r = 0; r < x.size(); ++r)
        for (std::size_t i = 0; i < n; ++i) {
          const bool sent = got.residual[r][i] != newest[r][i] + e[r][i];
          ASSERT_EQ(got.residual[r][n + i], sent ? 0 : newest[r][i]) << scene.describe(n) << "at " << i;
        }
    }
}

// With a codec that leaves nothing out and without masking: SGD with momentum, as after a sum of gradients.
TEST(Memory, momentum_without_loss_is_that_of_sgd) {
  for (const PlanRow& plan : plans())
    for (const int ranks : {2, 3, 4, 7}) {
      const std::size_t n = 300;
      Scene scene{kernels::find_codec("raw"), &plan, ranks};
      scene.per_node = node_sizes(plan, ranks).empty() ? 1 : node_sizes(plan, ranks)[0];
      scene.memory = &rule("momentum");
      scene.memory_values = {{0, 0.9}, {2, 1}};
      auto arrays = with_arrays(*scene.memory, zeros<double>(ranks, n));
      std::vector<double> u(n);
      for (int call = 0; call < 10; ++call) {
        Vectors<double> x;
        for (int r = 0; r < ranks; ++r)
          x.push_back(make_input<double>(Input::normal, n, static_cast<std::uint64_t>(100 * call + r)));
        const Outcome<double> got = run(scene, x, arrays);
        expect_sound(got, scene.describe(n));
        for (std::size_t i = 0; i < n; ++i) {
          double sum = 0;
          for (const auto& v : x) sum += v[i];
          u[i] = 0.9 * u[i] + sum;
          ASSERT_NEAR(got.output[0][i], u[i], 1e-13 * ranks * 10) << scene.describe(n) << "call " << call;
        }
        arrays = got.residual;
      }
    }
}

template <class T>
void expect_clipped(int ranks, std::size_t n, double clip) {
  Scene scene{kernels::find_codec("raw"), find_plan("allgather"), ranks};
  scene.memory = &rule("momentum");
  scene.memory_values = {{0, 0}, {1, clip}};
  const auto x = inputs<T>(ranks, n);
  const Outcome<T> got = run(scene, x, with_arrays(*scene.memory, zeros<Compute<T>>(ranks, n)));
  expect_sound(got, scene.describe(n));
  std::vector<double> sum(n);
  const double most = clip / std::sqrt(ranks);
  for (const auto& v : x) {
    double squares = 0;
    for (const T& element : v) squares += static_cast<double>(element) * static_cast<double>(element);
    const double factor = std::min(1.0, most / std::sqrt(squares));
    for (std::size_t i = 0; i < n; ++i) sum[i] += factor * static_cast<double>(v[i]);
  }
  double squares = 0;
  const double rounding = sizeof(T) == 2 ? 0x1p-7 : 0x1p-20;
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_NEAR(static_cast<double>(got.output[0][i]), sum[i], rounding * (std::abs(sum[i]) + 1)) << i;
    squares += sum[i] * sum[i];
  }
  EXPECT_LE(std::sqrt(squares), clip * std::sqrt(ranks) * 1.0001);
}

TEST(Memory, momentum_clips_each_ranks_norm) {
  for (const int ranks : {2, 3, 8})
    for (const double clip : {0.5, 40.0, 1e9}) {
      expect_clipped<float>(ranks, 3000, clip);
      expect_clipped<double>(ranks, 3000, clip);
      expect_clipped<Bf16>(ranks, 3000, clip);
    }
}

// Vectors are long, so each rule and codec has two plans in turn: every rule meets every plan, and so does
// every codec.
TEST(Memory, bits_do_not_depend_on_instruction_sets_pipelines_threads_and_places) {
  std::size_t turn = 0;
  for (const MemoryRule& of : kernels::memory_rules())
    for (const Codec& codec : kernels::codecs())
      for (int i = 0; i < (kSanitized ? 1 : 2); ++i) {
        const PlanRow& plan = plans()[turn++ % plans().size()];
        Scene scene{&codec, &plan, 3};
        scene.per_node = node_sizes(plan, 3)[0];
        scene.memory = &of;
        if (of.name == "momentum") scene.memory_values = {{1, 100}};
        const std::size_t n = kChunkBytes / 4 + 77;
        const auto x = inputs<float>(3, n);
        const auto e = with_arrays(of, inputs<float>(3, n, Input::laplace));
        const Outcome<float> expected = run(scene, x, e);
        expect_sound(expected, scene.describe(n));
        for (const kernels::Isa isa : {kernels::Isa::scalar, kernels::Isa::avx2}) {
          if (isa > kernels::best_isa()) continue;
          scene.isa = isa;
          expect_same(run(scene, x, e), expected, scene.describe(n) + std::string(name(isa)));
        }
        scene.isa = kernels::best_isa();
        scene.pipelines = 2, scene.threads = 2, scene.in_place = true;
        expect_same(run(scene, x, e), expected, scene.describe(n) + "in place");
      }
}

// A fixed-size codec sends the same bytes with every rule over the same plan.
TEST(Memory, wire_bytes_are_those_of_the_codec) {
  for (const MemoryRule& of : kernels::memory_rules())
    for_each_scene_of(of, [&](const Scene& scene, std::size_t n) {
      const auto x = inputs<float>(scene.ranks, n);
      const Outcome<float> got = run(scene, x, with_arrays(of, zeros<float>(scene.ranks, n)));
      const auto encodes = static_cast<std::size_t>(of.terms(kernels::preset_params(of)).messages);
      const std::size_t bound = encodes * scene.codec->wire_bound(n, kernels::Element::f32, scene.params()) +
                                (encodes > 1 ? kLengthBytes : 0);
      std::uint64_t sent = 0, messages = 0, received = 0;
      for (const Tally& t : got.tally)
        sent += t.sent_bytes, messages += t.messages_sent, received += t.received_bytes;
      ASSERT_EQ(sent, received) << scene.describe(n);
      if (scene.plan->name == "allgather") {
        ASSERT_LE(sent - messages * sizeof(FrameHeader),
                  static_cast<std::size_t>(scene.ranks * (scene.ranks - 1)) * bound)
            << scene.describe(n);
      }
    });
}

// Tiles rely on it: the bound of a vector is enough for its parts, written one after the other.
TEST(Memory, bounds_of_parts_add_up_to_no_more_than_the_bound_of_the_whole) {
  for (const Codec& codec : kernels::codecs())
    for (const bool short_blocks : {true, false}) {
      Scene scene{&codec, &plans()[0], 2};
      scene.short_blocks = short_blocks;
      const kernels::Params params = scene.params();
      if (codec.whole(params)) continue;
      const std::size_t block = codec.block(params);
      for (const kernels::Element element : kernels::kComputeElements)
        for (const std::size_t blocks : {1, 2, 3, 7, 100})
          for (const std::size_t rest : {std::size_t{0}, std::size_t{1}, block - 1, block, 5 * block + 3}) {
            const std::size_t n = blocks * block;
            EXPECT_LE(codec.wire_bound(n, element, params) + codec.wire_bound(rest, element, params),
                      codec.wire_bound(n + rest, element, params))
                << codec.name << " " << n << " + " << rest;
          }
    }
}

TEST(Memory, values_that_are_not_finite_reach_every_rank_and_are_gone_in_the_next_call) {
  for (const MemoryRule& of : kernels::memory_rules())
    for (const double masked : {0.0, 1.0}) {
      if (masked == 1 && of.name != "momentum") continue;
      for_each_scene_of(of, [&](Scene scene, std::size_t n) {
        if (n == 0) return;
        if (of.name == "momentum") scene.memory_values = {{2, masked}};
        auto x = inputs<float>(scene.ranks, n);
        std::vector<bool> bad(n);
        for (std::size_t r = 0; r < x.size(); r += 2) {
          plant_nonfinite(x[r], seed() + r);
          for (std::size_t i = 0; i < n; ++i)
            if (!std::isfinite(x[r][i])) bad[i] = true;
        }
        Outcome<float> got = run(scene, x, with_arrays(of, zeros<float>(scene.ranks, n)));
        expect_sound(got, scene.describe(n));
        const auto all_finite = [](const std::vector<float>& values) {
          return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
        };
        // Without a residual, elements beside one that is not finite have no place to wait.
        const bool all_count = scene.memory->arrays > 0 || !scene.codec->marks_blocks;
        std::size_t wrong = 0;
        while (wrong < n &&
               ((!all_count && !bad[wrong]) || std::isfinite(got.output[0][wrong]) != bad[wrong]))
          ++wrong;
        ASSERT_EQ(wrong, n) << scene.describe(n) << ": that element is not what it should be";
        for (const auto& arrays : got.residual) ASSERT_TRUE(all_finite(arrays)) << scene.describe(n);
        got = run(scene, inputs<float>(scene.ranks, n), got.residual);
        ASSERT_TRUE(all_finite(got.output[0])) << scene.describe(n);
      });
    }
}

// The mean of many results of one vector: all that is missing is in the last residuals (T22), which do not
// grow (T24).
void expect_mean(const Scene& scene) {
  constexpr std::size_t kN = 2000;
  constexpr int kCalls = 100;
  const auto x = inputs<float>(scene.ranks, kN);
  auto arrays = with_arrays(*scene.memory, zeros<float>(scene.ranks, kN));
  std::vector<double> sum(kN);
  double half_way = 0;
  const auto norm = [&] {
    double squares = 0;
    for (const auto& e : array_of(arrays, 0, kN))
      for (const float v : e) squares += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(squares);
  };
  for (int call = 0; call < kCalls; ++call) {
    const Outcome<float> got = run(scene, x, arrays);
    arrays = got.residual;
    for (std::size_t i = 0; i < kN; ++i) sum[i] += static_cast<double>(got.output[0][i]);
    if (call == kCalls / 2) half_way = norm();
  }
  EXPECT_LE(norm(), 1.5 * half_way + 1e-6) << scene.describe(kN);
  for (std::size_t i = 0; i < kN; ++i) {
    double exact = 0, magnitude = 0, left = 0;
    for (std::size_t r = 0; r < x.size(); ++r) {
      exact += static_cast<double>(x[r][i]);
      magnitude += std::abs(static_cast<double>(x[r][i])) + std::abs(static_cast<double>(arrays[r][i]));
      left += std::abs(static_cast<double>(arrays[r][i]));
    }
    ASSERT_LE(std::abs(sum[i] / kCalls - exact), left / kCalls + 0x1p-22 * (x.size() + 4.0) * magnitude)
        << scene.describe(kN) << "at " << i;
  }
}

TEST(Memory, the_mean_of_results_of_one_vector_is_its_sum) {
  for (const char* const codec : {"onebit", "adaptive", "topk", "int4", "bf16", "mxfp4"})
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 4, 5}) {
        if (node_sizes(plan, ranks).empty()) continue;
        Scene scene{kernels::find_codec(codec), &plan, ranks};
        scene.per_node = node_sizes(plan, ranks)[0];
        expect_mean(scene);
        scene.memory = &rule("decay");
        scene.memory_values = {{0, 1}};
        expect_mean(scene);
        scene.memory = &rule("momentum");
        scene.memory_values = {{0, 0}};
        expect_mean(scene);
      }
}

}  // namespace
}  // namespace mq::test
