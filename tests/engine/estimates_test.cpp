// Rules with estimates (kernels/host/estimates-inl.hpp) over codecs, plans and numbers of ranks: the sum of
// estimates is what every rank knows, exact calls are exact, estimates come nearer to vectors that stand
// still, ranks that send nothing send headers, and each version of the three-point compressors does what its
// definition says.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/memory_scene.hpp"

namespace mq::test {
namespace {

using kernels::MemoryRule;

const MemoryRule& rule(std::string_view name) { return *kernels::find_memory_rule(name); }

std::vector<const MemoryRule*> rules() {
  std::vector<const MemoryRule*> all;
  for (const MemoryRule& of : kernels::memory_rules())
    if (of.keeps_estimates) all.push_back(&of);
  return all;
}

template <class F>
void for_some_scenes(const MemoryRule& of, const F& f) {
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 5, 8})
        for (const int per_node : node_sizes(plan, ranks)) {
          Scene scene{&codec, &plan, ranks};
          scene.per_node = per_node;
          scene.memory = &of;
          f(scene);
        }
}

template <class F>
void for_each_setting(const F& f) {
  for (const MemoryRule* const of : rules())
    if (of->name == "3pc")
      for (const double v : {2, 3, 4, 5}) f(*of, std::vector<std::pair<std::size_t, double>>{{0, v}});
    else
      f(*of, std::vector<std::pair<std::size_t, double>>{});
}

double squares(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}

std::vector<float> estimate(const Outcome<float>& got, std::size_t rank, std::size_t n) {
  std::vector<float> h(got.residual[rank].begin(),
                       got.residual[rank].begin() + static_cast<std::ptrdiff_t>(n));
  for (float& v : h) v = -v;
  return h;
}

// The result and the second array are H, which is the sum of all h except for rounding, many calls long.
// magnitude: of what was added so far. An element near zero may have been sent as the greatest of its block
// and then taken back, as by terngrad.
void expect_sums(const Outcome<float>& got, std::size_t n, std::vector<double>& magnitude,
                 const std::string& where) {
  const auto sums = array_of(got.residual, 1, n);
  double greatest = 0;
  for (const float v : got.output[0]) greatest = std::max(greatest, std::abs(static_cast<double>(v)));
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::size_t r = 0; r < sums.size(); ++r) {
      sum -= static_cast<double>(got.residual[r][i]);
      magnitude[i] += std::abs(static_cast<double>(got.residual[r][i]));
    }
    magnitude[i] += greatest;
    ASSERT_NEAR(static_cast<double>(got.output[0][i]), sum,
                0x1p-22 * (static_cast<double>(sums.size()) + 4) * magnitude[i])
        << where << "at " << i;
  }
  for (std::size_t r = 0; r < sums.size(); ++r) ASSERT_TRUE(same_bits(sums[r], got.output[r])) << where;
}

TEST(Estimates, the_result_is_the_sum_of_all_estimates_over_every_codec_and_plan) {
  for_each_setting([](const MemoryRule& of, const auto& values) {
    for_some_scenes(of, [&](Scene scene) {
      scene.memory_values = values;
      constexpr std::size_t kN = 700;
      auto arrays = with_arrays(of, zeros<float>(scene.ranks, kN));
      std::vector<double> magnitude(kN);
      for (int call = 0; call < 4; ++call) {
        scene.exact_restart = call == 2;
        scene.random_key = static_cast<std::uint64_t>(call + 1);
        if (scene.exact_restart)
          arrays = with_arrays(of, zeros<float>(scene.ranks, kN)), magnitude.assign(kN, 0);
        const auto x = inputs<float>(scene.ranks, kN, call % 2 == 0 ? Input::normal : Input::laplace);
        const Outcome<float> got = run(scene, x, arrays);
        const std::string where = scene.describe(kN) + "call " + std::to_string(call) + " ";
        expect_sound(got, where);
        expect_sums(got, kN, magnitude, where);
        arrays = got.residual;
      }
    });
  });
}

TEST(Estimates, a_fresh_call_is_the_exact_sum_of_vectors_and_of_what_carry_left) {
  for_each_setting([](const MemoryRule& of, const auto& values) {
    for_some_scenes(of, [&](Scene scene) {
      constexpr std::size_t kN = 700;
      scene.memory_values = values;
      scene.exact_restart = true;
      const auto x = inputs<float>(scene.ranks, kN);
      const auto e = inputs<float>(scene.ranks, kN, Input::laplace);
      const Outcome<float> got = run(scene, x, with_arrays(of, e));
      expect_sound(got, scene.describe(kN));
      for (std::size_t i = 0; i < kN; ++i) {
        double sum = 0, magnitude = 0;
        for (std::size_t r = 0; r < x.size(); ++r) {
          ASSERT_EQ(got.residual[r][i], -(x[r][i] + e[r][i])) << "the estimate is the vector";
          sum += static_cast<double>(x[r][i] + e[r][i]);
          magnitude += std::abs(static_cast<double>(x[r][i] + e[r][i]));
        }
        ASSERT_NEAR(static_cast<double>(got.output[0][i]), sum, 0x1p-23 * scene.ranks * magnitude)
            << scene.describe(kN);
      }
    });
  });
}

TEST(Estimates, with_a_lossless_codec_results_are_exact) {
  for_each_setting([](const MemoryRule& of, const auto& values) {
    for (const PlanRow& plan : plans())
      for (const int ranks : kSanitized ? std::vector{4} : std::vector{2, 3, 4, 7}) {
        Scene scene{kernels::find_codec("raw"), &plan, ranks};
        scene.per_node = node_sizes(plan, ranks).empty() ? 1 : node_sizes(plan, ranks)[0];
        scene.memory = &of;
        scene.memory_values = values;
        constexpr std::size_t kN = 300;
        auto arrays = with_arrays(of, zeros<double>(ranks, kN));
        for (int call = 0; call < 5; ++call) {
          Vectors<double> x;
          for (int r = 0; r < ranks; ++r)
            x.push_back(make_input<double>(Input::normal, kN, static_cast<std::uint64_t>(100 * call + r)));
          const Outcome<double> got = run(scene, x, arrays);
          expect_sound(got, scene.describe(kN));
          for (std::size_t i = 0; i < kN; ++i) {
            double sum = 0;
            for (std::size_t r = 0; r < x.size(); ++r) {
              sum += x[r][i];
              ASSERT_NEAR(-got.residual[r][i], x[r][i], 1e-14) << scene.describe(kN);
            }
            ASSERT_NEAR(got.output[0][i], sum, 1e-13 * ranks) << scene.describe(kN) << "call " << call;
          }
          arrays = got.residual;
        }
      }
  });
}

// The definition of a three-point compressor for y = x: |h' - x|^2 <= (1 - A) |h - x|^2. With allgather no
// sums are encoded.
TEST(Estimates, of_vectors_that_stand_still_come_nearer_in_every_call) {
  struct Contraction {
    const char* codec;
    double rest;  // the greatest |C(v) - v|^2 / |v|^2
  };
  constexpr std::size_t kN = 4096;
  for (const auto& [codec, rest] :
       {Contraction{"topk", 0.99}, {"onebit", 0.99}, {"int8", 1e-3}, {"int4", 0.1}})
    for (const double v : {0.0, 3.0, 4.0}) {  // 0: ef21
      Scene scene{kernels::find_codec(codec), find_plan("allgather"), 3};
      scene.memory = &rule(v == 0 ? "ef21" : "3pc");
      if (v != 0) scene.memory_values = {{0, v}};
      const auto x = inputs<float>(3, kN);
      auto arrays = with_arrays(*scene.memory, zeros<float>(3, kN));
      std::vector<double> before(3, std::numeric_limits<double>::infinity());
      for (int call = 0; call < 10; ++call) {
        const Outcome<float> got = run(scene, x, arrays);
        for (std::size_t r = 0; r < 3; ++r) {
          const double distance = squares(x[r], estimate(got, r, kN));
          if (before[r] < 1e-12) continue;  // rounding of the vector itself
          ASSERT_LE(distance, (v == 4 ? rest * rest : rest) * before[r] + 1e-12)
              << scene.describe(kN) << "call " << call;
          before[r] = distance;
        }
        arrays = got.residual;
      }
    }
}

TEST(Estimates, results_come_to_the_sum_of_vectors_that_stand_still) {
  for (const char* const codec : {"topk", "onebit", "mxfp4"})
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 4, 5}) {
        if (node_sizes(plan, ranks).empty() || (kSanitized && ranks != 4)) continue;
        Scene scene{kernels::find_codec(codec), &plan, ranks};
        scene.per_node = node_sizes(plan, ranks)[0];
        scene.memory = &rule("ef21");
        constexpr std::size_t kN = 640;
        const auto x = inputs<float>(ranks, kN);
        std::vector<float> sum(kN);
        for (const auto& of_rank : x)
          for (std::size_t i = 0; i < kN; ++i) sum[i] += of_rank[i];
        auto arrays = with_arrays(*scene.memory, zeros<float>(ranks, kN));
        double first = 0, last = 0;
        for (int call = 0; call < 150; ++call) {
          const Outcome<float> got = run(scene, x, arrays);
          last = squares(got.output[0], sum);
          if (call == 0) first = last;
          arrays = got.residual;
        }
        EXPECT_LT(last, 1e-2 * first + 1e-6) << scene.describe(kN);
      }
}

TEST(Estimates, ranks_that_send_nothing_send_headers_and_their_estimates_stand) {
  for_each_setting([](const MemoryRule& of, const auto& values) {
    for_some_scenes(of, [&](Scene scene) {
      constexpr std::size_t kN = 700;
      scene.memory_values = values;
      const int messages = of.terms(scene.call_memory(kernels::Element::f32).params).messages;
      Outcome<float> before =
          run(scene, inputs<float>(scene.ranks, kN), with_arrays(of, zeros<float>(scene.ranks, kN)));
      scene.skipped_messages.assign(static_cast<std::size_t>(scene.ranks), 0);
      scene.skipped_messages[1] = messages;
      scene.random_key = 8;
      const auto x = inputs<float>(scene.ranks, kN, Input::laplace);
      const Outcome<float> got = run(scene, x, before.residual);
      expect_sound(got, scene.describe(kN));
      std::vector<double> magnitude(kN, 10.0 * scene.ranks);
      expect_sums(got, kN, magnitude, scene.describe(kN));
      // Its estimate changes by losses of sums only; with allgather no sums are encoded.
      if (scene.plan->name == "allgather") {
        ASSERT_TRUE(same_bits(estimate(got, 1, kN), estimate(before, 1, kN))) << scene.describe(kN);
        ASSERT_EQ(got.tally[1].sent_bytes, got.tally[1].messages_sent * sizeof(FrameHeader));
      }
      const bool is_v5 = of.name == "3pc" && values[0].second == 5;
      if (of.arrays == 3 && !is_v5) {
        ASSERT_TRUE(same_bits(array_of(got.residual, 2, kN)[1], x[1])) << "the last vector is kept";
      }
    });
  });
}

TEST(Estimates, no_rank_sends_and_the_result_stands) {
  for (const MemoryRule* const of : rules()) {
    Scene scene{kernels::find_codec("topk"), find_plan("direct"), 3};
    scene.memory = of;
    constexpr std::size_t kN = 3000;
    const auto x = inputs<float>(3, kN);
    Outcome<float> got = run(scene, x, with_arrays(*of, zeros<float>(3, kN)));
    for (std::size_t r = 0; r < 3; ++r) {
      Reduction reduction;
      reduction.memory = scene.call_memory(kernels::Element::f32);
      reduction.count = kN;
      std::vector<float> vector = inputs<float>(3, kN, Input::laplace)[r], in_place = vector;
      reduction.input = reinterpret_cast<const std::byte*>(in_place.data());
      reduction.output = reinterpret_cast<std::byte*>(in_place.data());
      const std::vector<float> h = estimate(got, r, kN);
      reduction.residual = reinterpret_cast<std::byte*>(got.residual[r].data());
      deliver_estimates(reduction);
      EXPECT_TRUE(same_bits(in_place, got.output[0])) << of->name;
      EXPECT_TRUE(same_bits(estimate(got, r, kN), h)) << of->name;
      if (of->arrays == 3) {
        EXPECT_TRUE(same_bits(array_of(got.residual, 2, kN)[r], vector)) << of->name;
      }
    }
  }
}

// h = b + C(x - b) with b = h + C(x - h): two calls of ef21.
TEST(Estimates, version_4_is_two_calls_of_ef21) {
  for (const char* const codec : {"topk", "onebit", "int8", "adaptive", "bf16"})
    for (const int ranks : {2, 3}) {
      constexpr std::size_t kN = 3000;
      Scene scene{kernels::find_codec(codec), find_plan("allgather"), ranks};
      const auto x = inputs<float>(ranks, kN);
      scene.memory = &rule("ef21");
      Outcome<float> twice = run(scene, x, with_arrays(*scene.memory, zeros<float>(ranks, kN)));
      twice = run(scene, x, twice.residual);
      scene.memory = &rule("3pc");
      const Outcome<float> once = run(scene, x, with_arrays(*scene.memory, zeros<float>(ranks, kN)));
      for (std::size_t r = 0; r < x.size(); ++r) {
        EXPECT_TRUE(same_bits(estimate(once, r, kN), estimate(twice, r, kN))) << scene.describe(kN);
        for (std::size_t i = 0; i < kN; ++i) ASSERT_NEAR(once.output[r][i], twice.output[r][i], 1e-5) << i;
      }
    }
}

// h = h + C(x - y).
TEST(Estimates, versions_2_and_5_send_the_change_from_the_last_vector) {
  for (const double v : {2.0, 5.0}) {
    constexpr std::size_t kN = 2000;
    Scene scene{kernels::find_codec("natural"), find_plan("allgather"), 2};
    scene.memory = &rule("3pc");
    scene.memory_values = {{0, v}};
    const auto y = inputs<float>(2, kN);
    scene.exact_restart = true;
    const Outcome<float> before = run(scene, y, with_arrays(*scene.memory, zeros<float>(2, kN)));
    scene.exact_restart = false;
    auto x = y;
    x[0][5] += 1;  // the only change
    x[1][9] -= 3;
    const Outcome<float> got = run(scene, x, before.residual);
    expect_sound(got, scene.describe(kN));
    for (std::size_t i = 0; i < kN; ++i)
      if (i != 5 && i != 9) {
        ASSERT_EQ(got.output[0][i], before.output[0][i]) << i;
      }
    // natural rounds 1 to 1, and 3 to 2 or 4; version 2 sends what is missing after that.
    ASSERT_NEAR(got.output[0][5], before.output[0][5] + 1, 1e-5);
    const double change = static_cast<double>(before.output[0][9]) - static_cast<double>(got.output[0][9]);
    if (v == 5) {
      EXPECT_NEAR(std::min(std::abs(change - 2), std::abs(change - 4)), 0, 1e-5);
    } else {
      EXPECT_NEAR(change, 3, 1e-5);
    }
  }
}

template <class T>
void expect_half(const MemoryRule& of) {
  Scene scene{kernels::find_codec("topk"), find_plan("direct"), 3};
  scene.memory = &of;
  constexpr std::size_t kN = 3000;
  auto arrays = with_arrays(of, zeros<float>(3, kN));
  for (int call = 0; call < 3; ++call) {
    scene.exact_restart = call == 0;
    const Outcome<T> got = run(scene, inputs<T>(3, kN, call == 0 ? Input::normal : Input::laplace), arrays);
    expect_sound(got, scene.describe(kN));
    for (std::size_t i = 0; i < kN; ++i)  // all ranks keep the sum in float, and the result is its rounding
      ASSERT_EQ(static_cast<double>(got.output[0][i]),
                static_cast<double>(static_cast<T>(got.residual[0][kN + i])))
          << i;
    arrays = got.residual;
  }
}

TEST(Estimates, of_half_types_are_floats) {
  for (const MemoryRule* const of : rules()) {
    expect_half<F16>(*of);
    expect_half<Bf16>(*of);
  }
}

TEST(Estimates, wrong_lengths_of_messages_are_errors) {
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Scene scene{kernels::find_codec("int8"), find_plan("allgather"), 2};
    scene.memory = &rule("3pc");
    constexpr std::size_t kN = 500;
    scene.tamper = [&](int from, int, int, std::vector<std::byte>& frame) {
      if (from == 1 && frame.size() >= sizeof(FrameHeader) + sizeof length)
        std::memcpy(frame.data() + sizeof(FrameHeader), &length, sizeof length);
    };
    const Outcome<float> got =
        run(scene, inputs<float>(2, kN), with_arrays(*scene.memory, zeros<float>(2, kN)));
    EXPECT_EQ(got.status[0].code(), Code::bad_frame) << length;
  }
}

}  // namespace
}  // namespace mq::test
