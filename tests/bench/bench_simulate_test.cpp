// Simulated calls: times where a formula is exact, results against threads as ranks, many ranks, lost
// messages, and the rates of codecs.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "bench/research/simulate/model.hpp"
#include "bench/research/simulate/steps.hpp"
#include "tests/bench/bench_simulate_scene.hpp"
#include "tests/engine/scene.hpp"

namespace mq::sim {
namespace {

using test::Scene;

constexpr double kHello = sizeof(Hello);

TEST(SimulatedCall, allgather_at_two_ranks_takes_one_message_after_the_agreement) {
  const Network n = network();
  constexpr double kByte = 0.2e-9;  // of a codec
  for (const std::size_t count : {1u, 1000u, 16384u}) {
    SimulatedCall call = call_of("onebit/allgather", count, 2);
    call.step_s = 1e-7;
    const SimulatedResult got = run(call, n, Rates::constant(kByte));
    const auto sent = static_cast<double>(got.ranks[0].frame_bytes);
    const double step = call.step_s + kByte * 4 * static_cast<double>(count);
    for (const SimulatedRank& rank : got.ranks) {
      EXPECT_NEAR(rank.agreed_s, message_s(n, kHello), 1e-15);
      EXPECT_NEAR(rank.encode_s + rank.decode_s, 3 * step, 1e-18);
    }
    const double agreed = message_s(n, kHello), flight = n.latency_s + sent / n.bandwidth_Bps;
    // Rank 0 decodes its own vector, which comes first, while the other one is on its way.
    EXPECT_NEAR(got.ranks[0].end_s, agreed + step + 2 * n.overhead_s + std::max(step, flight) + step, 1e-15);
    EXPECT_NEAR(got.ranks[1].end_s, agreed + step + 2 * n.overhead_s + flight + 2 * step, 1e-15) << count;
  }
}

TEST(SimulatedCall, recursive_doubling_takes_a_message_a_round) {
  const Network n = network();
  for (const int rounds : {1, 2, 3, 5, 8}) {
    const SimulatedResult got = run(call_of("raw/recursive_doubling", 4096, 1 << rounds), n);
    const double wire = sizeof(FrameHeader) + 4.0 * 4096;
    EXPECT_NEAR(got.last().end_s, rounds * (message_s(n, kHello) + message_s(n, wire)), 1e-13) << rounds;
    EXPECT_EQ(got.last().messages, static_cast<std::uint64_t>(2 * rounds));
  }
}

TEST(SimulatedCall, latencies_of_a_round_of_direct_overlap) {
  Network n = network();
  n.latency_s = 100e-6;
  constexpr int kRanks = 64, kMessages = kRanks - 1;
  const SimulatedResult got = run(call_of("raw/direct", 64 * 1024, kRanks), n);
  const double wire = (sizeof(FrameHeader) + 4096.0) / n.bandwidth_Bps;
  const double agreed = 6 * message_s(n, kHello);
  // A port sends all messages of a round one after the other, and the latency comes once a round.
  const double least = agreed + 2 * (kMessages * wire + n.latency_s);
  EXPECT_GE(got.last().end_s, least);
  EXPECT_LE(got.last().end_s, least + 2 * (kMessages + 2) * 2 * n.overhead_s);
  EXPECT_LT(got.last().end_s, agreed + 2 * kMessages * n.latency_s);  // what latencies in a row would take
}

template <class T>
std::vector<const std::byte*> read_only(const std::vector<std::vector<T>>& vectors) {
  std::vector<const std::byte*> all;
  for (const auto& v : vectors) all.push_back(reinterpret_cast<const std::byte*>(v.data()));
  return all;
}
template <class T>
std::vector<std::byte*> writable(std::vector<std::vector<T>>& vectors) {
  std::vector<std::byte*> all;
  for (auto& v : vectors) all.push_back(reinterpret_cast<std::byte*>(v.data()));
  return all;
}

template <class T>
void expect_bits_of_threads(const Scene& scene, std::size_t n) {
  const auto x = test::inputs<T>(scene.ranks, n), e = test::inputs<T>(scene.ranks, n, test::Input::laplace);
  const test::Outcome<T> expected = test::run<T>(scene, x, e);
  auto residual = e, output = test::zeros<T>(scene.ranks, n);
  const Vectors vectors{read_only(x), writable(output), writable(residual)};
  SimulatedCall call;
  call.method.codec = scene.codec;
  call.method.params = scene.params();
  call.method.plan = scene.plan;
  call.element = test::element_of<T>;
  call.count = n;
  call.ranks = scene.ranks;
  call.random_key = 7;  // as in test::run
  call.vectors = &vectors;
  Network net = network();
  net.per_node = scene.per_node;
  const SimulatedResult got = run(call, net, Rates::constant(1e-10));
  for (std::size_t r = 0; r < x.size(); ++r) {
    ASSERT_TRUE(test::same_bits(output[r], expected.output[r])) << scene.describe(n) << "rank " << r;
    ASSERT_TRUE(test::same_bits(residual[r], expected.residual[r])) << scene.describe(n) << "rank " << r;
    ASSERT_EQ(got.ranks[r].frame_bytes, expected.tally[r].sent_bytes) << scene.describe(n) << "rank " << r;
  }
}

TEST(SimulatedCall, with_vectors_the_results_are_those_of_threads_as_ranks) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 3, 8})
        for (const int per_node : test::node_sizes(plan, ranks))
          for (const std::size_t n : {0, 1, ranks + 1, 3000}) {
            Scene scene{&codec, &plan, ranks};
            scene.per_node = per_node;
            expect_bits_of_threads<float>(scene, n);
            if (ranks == 3) expect_bits_of_threads<double>(scene, n);
          }
}

TEST(SimulatedCall, without_vectors_times_and_bytes_are_the_same) {
  for (const char* const codec : {"raw", "bf16", "onebit", "int8"})
    for (const PlanRow& plan : plans())
      for (const std::size_t n : {1u, 1000u, 300000u}) {
        constexpr int kRanks = 4;
        auto x = test::inputs<float>(kRanks, n), e = test::zeros<float>(kRanks, n), output = e;
        const Vectors vectors{read_only(x), writable(output), writable(e)};
        SimulatedCall call = call_of((std::string(codec) + "/" + std::string(plan.name)).c_str(), n, kRanks);
        Network net = network();
        net.per_node = 2;
        const SimulatedResult without = run(call, net, Rates::constant(1e-10));
        call.vectors = &vectors;
        const SimulatedResult with = run(call, net, Rates::constant(1e-10));
        for (std::size_t r = 0; r < kRanks; ++r) {
          EXPECT_EQ(with.ranks[r].end_s, without.ranks[r].end_s) << codec << "/" << plan.name << " " << n;
          EXPECT_EQ(with.ranks[r].frame_bytes, without.ranks[r].frame_bytes)
              << codec << "/" << plan.name << " " << n;
        }
      }
}

TEST(SimulatedCall, is_deterministic) {
  for (const PlanRow& plan : plans()) {
    SimulatedCall call = call_of(("onebit/" + std::string(plan.name)).c_str(), 100000, 12);
    call.step_s = 1e-7;
    Network n = network();
    n.per_node = 3;
    n.oversubscription = 2;
    n.nodes_per_switch = 2;
    const SimulatedResult a = run(call, n, Rates::constant(3e-10)), b = run(call, n, Rates::constant(3e-10));
    for (std::size_t r = 0; r < a.ranks.size(); ++r) {
      EXPECT_EQ(a.ranks[r].end_s, b.ranks[r].end_s);
      EXPECT_EQ(a.ranks[r].wait_s, b.ranks[r].wait_s);
      EXPECT_EQ(a.ranks[r].messages, b.ranks[r].messages);
    }
    EXPECT_EQ(a.events, b.events);
  }
}

TEST(SimulatedCall, many_ranks_complete_every_plan) {
  for (const PlanRow& plan : plans()) {
    // Those with messages between all pairs of ranks would take too long. The table of
    // bench_simulate_footprint_test.cpp has direct on so many.
    const bool is_large = plan.name == "grid" || plan.name == "recursive_doubling";
    const int ranks = is_large ? many_ranks() : 256;
    const auto rounds = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
    Network n = network();
    n.per_node = 32;
    const SimulatedResult got = run(call_of(("onebit/" + std::string(plan.name)).c_str(), 1 << 16, ranks), n);
    EXPECT_GE(got.last().messages, rounds + 1) << plan.name;
    for (const SimulatedRank& rank : got.ranks) ASSERT_GT(rank.frame_bytes, 0u) << plan.name;
    if (plan.name == "direct") {
      EXPECT_EQ(got.last().messages, rounds + 2 * static_cast<std::uint64_t>(ranks - 1));
    }
  }
}

TEST(SimulatedCall, many_ranks_complete_several_calls_in_flight) {
  for (const char* const method : {"onebit/direct", "topk/recursive_doubling", "raw/direct"}) {
    SimulatedCall call = call_of(method, 200000, many_ranks() / 8);
    call.calls = 3;
    const SimulatedResult together = run(call, network(), Rates::constant(1e-10));
    call.calls = 1;
    const SimulatedResult alone = run(call, network(), Rates::constant(1e-10));
    EXPECT_EQ(together.ranks[5].frame_bytes, 3 * alone.ranks[5].frame_bytes);
    EXPECT_EQ(together.ranks[5].messages, 3 * alone.ranks[5].messages);
    EXPECT_LE(together.last().end_s, 3 * alone.last().end_s);
    EXPECT_GT(together.last().end_s, alone.last().end_s);
  }
}

// Each rank with a port of its own, as in the published results, and each call in a window of tags of its
// own.
TEST(SimulatedCall, a_thousand_ranks_complete_several_calls_in_flight) {
  for (const char* const method : {"onebit/grid", "raw/recursive_doubling"}) {
    SimulatedCall call = call_of(method, 1 << 16, many_ranks());
    call.calls = 3;
    const SimulatedResult got = run(call, network(), Rates::constant(1e-10));
    call.calls = 1;
    const SimulatedResult alone = run(call, network(), Rates::constant(1e-10));
    for (std::size_t r = 0; r < got.ranks.size(); ++r)
      ASSERT_EQ(got.ranks[r].frame_bytes, 3 * alone.ranks[r].frame_bytes) << method;
    EXPECT_EQ(got.leaked, 0u);
  }
}

// A call that follows others takes as long as the first one, where ports have no bursts. Where they have, the
// first one uses them up.
TEST(SimulatedCall, calls_one_after_the_other_find_the_network_as_it_was_left) {
  Network n = network();
  SimulatedCall call = call_of("raw/direct", 1 << 16, 8);
  const auto simulated = [&](int repeats) {
    call.repeats = repeats;
    return run(call, n, Rates::constant(1e-10));
  };
  const SimulatedResult first = simulated(1), third = simulated(3);
  EXPECT_NEAR(third.last().end_s, first.last().end_s, 0.1 * first.last().end_s);
  for (std::size_t r = 0; r < first.ranks.size(); ++r) {
    EXPECT_EQ(third.ranks[r].messages, first.ranks[r].messages);
    EXPECT_EQ(third.ranks[r].frame_bytes, first.ranks[r].frame_bytes);
    EXPECT_NEAR(third.ranks[r].encode_s, first.ranks[r].encode_s, 1e-12);
    EXPECT_GT(third.ranks[r].agreed_s, 0);
    EXPECT_LT(third.ranks[r].agreed_s, third.ranks[r].end_s);
  }
  n.burst_bytes = 1 << 18;
  EXPECT_LT(simulated(1).last().end_s, 0.8 * first.last().end_s);
  EXPECT_GT(simulated(3).last().end_s, 1.2 * simulated(1).last().end_s);
  call.repeats = 0;
  EXPECT_FALSE(check(call, n, Rates::constant(1e-10)).ok());
}

// Codecs with rates of their own, as mpiq-kernels wrote them.
Rates measured_rates() {
  auto rates = Rates::read(MQ_TEST_RATES);
  EXPECT_TRUE(rates.ok()) << rates.status().text();
  return *rates;
}

// results/2026-11-25-scale/model.md has more points.
TEST(SimulatedCall, the_model_of_time_is_near_the_engine) {
  const Rates measured = measured_rates(), constant = Rates::constant(0.1e-9);
  std::vector<double> ratios;
  for (int l = 0; const char* const link : {"lab-1gbit", "lab-10gbit", "ethernet-10gbit", "rdma-100gbit"}) {
    Network n;
    ASSERT_TRUE(parse_link(link, n).ok());
    n.burst_bytes = 0;  // the model has none
    ++l;
    for (const char* const codec : {"raw", "bf16", "topk", "onebit", "int8"})
      for (const PlanRow& plan : plans())
        for (const int ranks : {2, 8, 27, 64})
          for (const std::size_t bytes : {64u << 10, 1u << 20, 16u << 20}) {
            if (plan.name == "allgather" && ranks * (bytes >> 20) > 64) continue;
            // 64 ranks take most of the time, and a codec is only a rate and a size to both: one codec on
            // each link with each size, and every plan with all of them.
            const bool is_raw = (l + std::countr_zero(bytes) / 4) % 2 == 0;
            if (ranks == 64 && codec != std::string_view(is_raw ? "raw" : "onebit")) continue;
            const SimulatedCall call =
                call_of((std::string(codec) + "/" + std::string(plan.name)).c_str(), bytes / 4, ranks);
            // Then some slices are empty, and rank 0 does not do what all others do: each of the others takes
            // all hops.
            const std::size_t blocks = call.count / call.method.codec->block(call.method.params);
            if (plan.name == "ring" && blocks < static_cast<std::size_t>(ranks)) continue;
            const Rates& rates = measured.missing(codec, kernels::Element::f32).empty() ? measured : constant;
            const double ratio = model_of(call, n, rates).seconds / run(call, n, rates).last().end_s;
            ratios.push_back(std::max(ratio, 1 / ratio));
            const bool may_be_chosen = plan.name == "direct" || plan.name == "grid" ||
                                       plan.name == "recursive_doubling" || plan.name == "allgather";
            EXPECT_LT(ratios.back(), may_be_chosen ? 1.6 : 2.0)
                << ratio << " " << codec << "/" << plan.name << " " << ranks << " ranks, " << bytes
                << " bytes, " << link;
          }
  }
  std::sort(ratios.begin(), ratios.end());
  ASSERT_GT(ratios.size(), 500u);
  EXPECT_LT(ratios[ratios.size() / 2], 1.15);
}

TEST(SimulatedCall, a_message_takes_two_events_and_not_many_more) {
  for (const char* const method : {"onebit/direct", "onebit/grid", "raw/ring"}) {
    const SimulatedResult got = run(call_of(method, 1 << 16, 64), network());
    std::uint64_t messages = 0;
    for (const SimulatedRank& rank : got.ranks) messages += rank.messages;
    EXPECT_LT(got.events, 4 * messages) << method;
  }
}

TEST(SimulatedCall, vectors_use_no_memory) {
  const SimulatedCall call = call_of("bf16/recursive_doubling", std::size_t{1} << 33, 4);  // 32 GiB a rank
  EXPECT_GT(run(call, network()).last().end_s, 2 * 2 * std::ldexp(1, 33) / 1e9);
}

// As in S-Caffe (Awan et al., PPoPP 2017): while some segments are between nodes, others are inside them.
TEST(SimulatedCall, the_two_levels_of_hierarchical_overlap) {
  constexpr std::size_t kCount = std::size_t{4} << 20;
  constexpr int kPerNode = 4, kNodes = 4;
  const auto seconds = [](const char* method, int ranks, int per_node) {
    Network n = network();
    n.per_node = per_node;
    return simulate(call_of(method, kCount, ranks), n, Rates::constant(1e-10)).last().end_s;
  };
  const double all = seconds("bf16/hierarchical", kPerNode * kNodes, kPerNode);
  const double inside = seconds("bf16/hierarchical", kPerNode, kPerNode);
  const double between = seconds("bf16/direct", kNodes, 1);
  EXPECT_GT(all, std::max(inside, between));
  EXPECT_LT(all, 0.8 * (inside + between)) << inside << " s inside, " << between << " s between nodes";
}

TEST(SimulatedCall, a_lost_message_is_an_error_on_all_ranks) {
  for (const PlanRow& plan : plans())
    for (const int lost_tag : {0, 1, 999}) {
      SimulatedCall call = call_of(("onebit/" + std::string(plan.name)).c_str(), 4096, 8);
      bool is_lost = false;
      call.loses = [&](int from, int, int tag) {
        const bool lose = !is_lost && from == 3 && tag == lost_tag;
        is_lost = is_lost || lose;
        return lose;
      };
      Network n = network();
      n.per_node = plan.name == "hierarchical" ? 2 : 1;
      const SimulatedResult got = simulate(call, n, Rates::constant(0));
      if (!is_lost) {  // no message of rank 3 has this tag
        EXPECT_TRUE(got.status.ok()) << plan.name << " " << got.status.text();
        continue;
      }
      EXPECT_EQ(got.status.code(), Code::timed_out) << plan.name;
      EXPECT_NE(got.status.text().find("with tag "), std::string::npos) << got.status.text();
    }
}

std::string row(const char* name, double us) {
  return std::string(R"({"name":")") + name + R"(","real_time":)" + std::to_string(us) +
         R"(,"time_unit":"us"},)";
}

TEST(SimulatedCall, rates_are_those_of_the_file) {
  std::string rows;
  for (const char* const work : {"encode", "encode+feedback", "decode", "decode+streamed", "decode+add+apart",
                                 "decode+add+apart+streamed"}) {
    const std::string word = "onebit/" + std::string(work) + "/f32/avx2/";
    rows += row((word + "256KiB/manual_time").c_str(), 256) +
            row((word + "65536KiB/manual_time").c_str(), 131072);
    rows += row(("onebit/" + std::string(work) + "/f32/scalar/256KiB").c_str(), 5000);
  }
  rows += row("somebody/else", 3);
  rows.pop_back();
  const std::string text = R"({"context":{"best_isa":"avx2"},"benchmarks":[)" + rows + "]}";
  const auto rates = Rates::parse(text);
  ASSERT_TRUE(rates.ok()) << rates.status().text();
  const auto us_a_KiB = [&](std::size_t bytes) {
    return rates->byte_s("onebit", Work::decode, kernels::Element::f32, bytes) * 1024 * 1e6;
  };
  EXPECT_NEAR(us_a_KiB(100), 1, 1e-9);
  EXPECT_NEAR(us_a_KiB(256 << 10), 1, 1e-9);
  EXPECT_NEAR(us_a_KiB(4 << 20), 1.5, 1e-9);  // in the middle of the two, by the logarithm
  EXPECT_NEAR(us_a_KiB(64 << 20), 2, 1e-9);
  EXPECT_NEAR(us_a_KiB(1 << 30), 2, 1e-9);
  EXPECT_EQ(rates->missing("onebit", kernels::Element::f32), "");
  EXPECT_NE(rates->missing("onebit", kernels::Element::f64), "");
  EXPECT_NE(rates->missing("bf16", kernels::Element::f32), "");
  EXPECT_EQ(Rates::parse(text, "scalar")->isa(), "scalar");
  for (const char* const bad :
       {"", "{", "[]", R"({"benchmarks":[]})", R"({"context":{"best_isa":"avx2"},"benchmarks":[]})",
        R"({"context":{"best_isa":"avx2"},"benchmarks":[{"name":3}]})"})
    EXPECT_FALSE(Rates::parse(bad).ok()) << bad;
  EXPECT_FALSE(Rates::read("/nowhere/kernels.json").ok());
}

TEST(SimulatedCall, what_cannot_be_simulated_is_refused) {
  const Rates rates = Rates::constant(0);
  Network n = network();
  EXPECT_TRUE(check(call_of("onebit", 10, 2), n, rates).ok());
  EXPECT_TRUE(check(call_of("mpi", 10, 2), n, rates).ok());
  EXPECT_FALSE(check(call_of("onebit", 10, 1), n, rates).ok());
  EXPECT_FALSE(check(call_of("onebit", 10, 1 << 20), n, rates).ok());
  n.per_node = 4;
  EXPECT_FALSE(check(call_of("onebit", 10, 6), n, rates).ok());
  SimulatedCall call = call_of("onebit", 10, 8);
  EXPECT_TRUE(check(call, n, rates).ok());
  call.element = kernels::Element::f16;
  EXPECT_FALSE(check(call, n, rates).ok());
  call.element = kernels::Element::f32;
  call.calls = 33;
  EXPECT_FALSE(check(call, n, rates).ok());
}

}  // namespace
}  // namespace mq::sim
