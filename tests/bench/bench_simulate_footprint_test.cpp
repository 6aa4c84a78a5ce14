// What a call needs on a rank: by formulas, and in the table of results/2026-11-25-scale/README.md.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "bench/research/simulate/footprint.hpp"
#include "tests/bench/bench_simulate_scene.hpp"

namespace mq::sim {
namespace {

Footprint of(const char* method, std::size_t count, int ranks) {
  SimulatedCall call;
  call.method = *parse_method(method);
  call.count = count;
  call.ranks = ranks;
  return footprint(call, network(), Rates::constant(0));
}

TEST(Footprint, direct_sends_two_messages_to_each_other_rank) {
  for (const int ranks : {2, 3, 8, 61, 256}) {
    const Footprint f = of("onebit/direct", 1000, ranks);
    const auto p = static_cast<std::size_t>(ranks), rounds = static_cast<std::size_t>(std::bit_width(p - 1));
    EXPECT_EQ(f.messages, 2 * (p - 1) + rounds);
    EXPECT_EQ(f.peers, p - 1);
    EXPECT_EQ(f.requests, 4 * (p - 1) + 1);  // sends, receives, and the slot of the own sum
  }
}

TEST(Footprint, the_grid_needs_as_many_of_each_as_its_rows_and_columns) {
  for (const int ranks : {64, 256, 1024}) {
    if (ranks > many_ranks()) continue;
    const double root = std::sqrt(ranks);
    const Footprint f = of("onebit/grid", std::size_t{1} << 18, ranks);
    EXPECT_LE(static_cast<double>(f.messages), 4.5 * root + std::log2(ranks));
    EXPECT_LE(static_cast<double>(f.peers), 2.5 * root + std::log2(ranks));
    EXPECT_LE(static_cast<double>(f.steps), 12 * root + 8);
  }
}

TEST(Footprint, recursive_doubling_grows_with_the_logarithm) {
  for (const int rounds : {1, 3, 6, 8}) {
    const Footprint f = of("onebit/recursive_doubling", 1000, 1 << rounds);
    EXPECT_EQ(f.messages, static_cast<std::uint64_t>(2 * rounds));
    EXPECT_LE(f.peers, static_cast<std::size_t>(2 * rounds));
  }
}

TEST(Footprint, buffers_hold_what_arrives_of_two_segments_and_do_not_grow_with_the_vector) {
  for (const int ranks : {2, 64}) {
    const std::size_t small = of("onebit/direct", std::size_t{1} << 24, ranks).buffer_bytes,
                      large = of("onebit/direct", std::size_t{1} << 26, ranks).buffer_bytes;
    EXPECT_EQ(small, large);
  }
}

// mpiq-simulate --footprint
TEST(Footprint, the_committed_table_is_right) {
  std::ifstream file(MQ_TEST_DOCS);
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  const std::string table = footprint_table(many_ranks());
  EXPECT_NE(docs.find(table), std::string::npos) << table;
}

}  // namespace
}  // namespace mq::sim
