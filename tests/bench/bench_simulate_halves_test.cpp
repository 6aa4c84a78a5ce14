// Simulated reduce-scatters, allgathers, broadcasts and reductions: what they send, how long they take where
// a formula is exact, and many ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "bench/research/simulate/call.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "tests/bench/bench_simulate_scene.hpp"

namespace mq::sim {
namespace {

constexpr double kHello = sizeof(Hello);

constexpr std::array kHalves{Collective::reduce_scatter, Collective::allgather};

SimulatedCall half_of(Collective collective, const char* method, std::size_t count, int ranks) {
  SimulatedCall call = call_of(method, count, ranks);
  call.collective = collective;
  call.feedback = false;
  return call;
}

TEST(SimulatedHalves, every_rank_sends_a_part_to_every_other) {
  for (const Collective collective : kHalves)
    for (const int ranks : {2, 3, 8, 61})
      for (const std::size_t count : {1u, 1000u, 64u * 61u}) {
        const SimulatedResult got = run(half_of(collective, "raw", count, ranks), network());
        EXPECT_EQ(got.plan, mq::plan_of(collective));
        const auto p = static_cast<std::uint64_t>(ranks);
        const auto hops = static_cast<std::uint64_t>(std::bit_width(p - 1));
        std::uint64_t sent = 0;
        for (const SimulatedRank& rank : got.ranks) {
          EXPECT_EQ(rank.messages, p - 1 + hops);
          sent += rank.frame_bytes;
        }
        EXPECT_EQ(sent, (p - 1) * (4 * count + p * sizeof(FrameHeader))) << name(collective) << ' ' << ranks;
      }
}

TEST(SimulatedHalves, take_one_message_at_two_ranks_and_the_work_of_their_parts) {
  const Network n = network();
  constexpr double kByte = 0.2e-9;  // of a codec
  constexpr std::size_t kCount = 4096;
  const double wire = sizeof(FrameHeader) + 2.0 * kCount;
  for (const Collective collective : kHalves) {
    const SimulatedResult pair = run(half_of(collective, "raw", kCount, 2), n);
    EXPECT_NEAR(pair.last().end_s, message_s(n, kHello) + message_s(n, wire), 1e-13);
    const SimulatedResult four = run(half_of(collective, "raw", kCount, 4), n, Rates::constant(kByte));
    // Encoded and decoded: three parts of four each; or one part, and all of the vector.
    const double vectors = collective == Collective::reduce_scatter ? 0.75 + 0.75 : 0.25 + 1;
    for (const SimulatedRank& rank : four.ranks)
      EXPECT_NEAR(rank.encode_s + rank.decode_s, vectors * 4 * kCount * kByte, 1e-12) << name(collective);
  }
}

TEST(SimulatedHalves, send_together_what_an_allreduce_by_direct_sends) {
  constexpr int kRanks = 16;
  const std::size_t count = kRanks * (std::size_t{1} << 16);
  const auto sent = [](const SimulatedResult& result) { return result.last().frame_bytes; };
  std::uint64_t halves = 0;
  for (const Collective collective : kHalves)
    halves += sent(run(half_of(collective, "int8", count, kRanks), network()));
  EXPECT_EQ(halves, sent(run(call_of("int8/direct", count, kRanks), network())));
}

TEST(SimulatedHalves, many_ranks_complete_them) {
  for (const Collective collective : kHalves) {
    const char* const method = collective == Collective::allgather ? "onebit" : "topk";
    SimulatedCall call =
        half_of(collective, method, 1000 * static_cast<std::size_t>(many_ranks()) + 7, many_ranks());
    call.feedback = true;
    const SimulatedResult got = run(call, network(), Rates::constant(1e-10));
    EXPECT_GT(got.last().end_s, got.last().agreed_s) << name(collective) << ' ' << method;
  }
}

// Of long vectors no rank sends more than one, and all together send P - 1; of short ones, too.
TEST(SimulatedRooted, send_as_many_vectors_as_their_plans_say) {
  for (const Collective collective : {Collective::bcast, Collective::reduce})
    for (const int ranks : {2, 3, 8, 61})
      for (const std::size_t count : {1u, 1000u, 1u << 20}) {
        const SimulatedCall call = half_of(collective, "raw", count, ranks);
        const SimulatedResult got = run(call, network());
        EXPECT_EQ(got.plan,
                  mq::plan_of(collective, call.method.codec->wire_bound(count, call.element, {}), ranks));
        std::uint64_t sent = 0, most = 0;
        for (const SimulatedRank& rank : got.ranks) {
          sent += rank.frame_bytes;
          most = std::max(most, rank.frame_bytes);
        }
        const auto p = static_cast<std::uint64_t>(ranks);
        const bool is_tree = got.plan == mq::plan_of(collective, 1, ranks);
        const std::uint64_t vectors = p - 1;
        const std::uint64_t headers = 64 * (p + 64) * sizeof(FrameHeader);  // of a rank, at most
        EXPECT_GE(sent, vectors * 4 * count) << name(collective) << ' ' << ranks << ' ' << count;
        EXPECT_LE(sent, vectors * 4 * count + p * headers)
            << name(collective) << ' ' << ranks << ' ' << count;
        if (!is_tree) {
          EXPECT_LE(most, 4 * count + headers) << name(collective) << ' ' << ranks;
        }
      }
}

TEST(SimulatedRooted, many_ranks_complete_them) {
  for (const Collective collective : {Collective::bcast, Collective::reduce})
    for (const std::size_t count : {std::size_t{100}, 1000 * static_cast<std::size_t>(many_ranks()) + 7}) {
      SimulatedCall call = half_of(collective, "onebit", count, many_ranks());
      call.feedback = collective == Collective::reduce;
      const SimulatedResult got = run(call, network(), Rates::constant(1e-10));
      EXPECT_GT(got.last().end_s, got.last().agreed_s) << name(collective) << ' ' << count;
    }
}

TEST(SimulatedHalves, take_no_plan_and_no_vectors) {
  const Rates rates = Rates::constant(0);
  const SimulatedCall good = half_of(Collective::reduce_scatter, "onebit", 64, 4);
  EXPECT_TRUE(check(good, network(), rates).ok());
  SimulatedCall call = half_of(Collective::reduce_scatter, "onebit/direct", 64, 4);
  EXPECT_NE(check(call, network(), rates).text().find("plan of its own"), std::string::npos);
  const Vectors vectors;
  call = good;
  call.vectors = &vectors;
  EXPECT_NE(check(call, network(), rates).text().find("without vectors"), std::string::npos);
}

}  // namespace
}  // namespace mq::sim
