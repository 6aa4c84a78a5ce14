// The file of what auto has learnt: read and written, damaged, and asked.

#include "mpi_quant/automatic/knowledge.hpp"

#include <gtest/gtest.h>

#include <string>

#include "bench/research/automatic/world.hpp"

namespace mq {
namespace {

const std::string kLine =
    "1048576 f32 @2 auto(error=0.02): int8/direct seconds=0.000213 mpi=0.00079 margin=1.25 calls=400";

std::vector<KnownClass> parsed(const std::string& text) {
  Result<std::vector<KnownClass>> all = parse_knowledge(text);
  EXPECT_TRUE(all.ok()) << all.status().text();
  return all.ok() ? *all : std::vector<KnownClass>{};
}

TEST(Knowledge, a_line_is_written_as_it_is_read) {
  for (const std::string& line :
       {kLine, std::string("65536 f64 @1024 auto: mpi seconds=0.1 mpi=0.1 margin=1 calls=0"),
        std::string(
            "9 bf16 @3 auto(error=abs:1e-06): bound(abs=1e-06)/direct seconds=0 mpi=1 margin=5 calls=1"),
        std::string(
            "4194304 f32 @2 auto(error=feedback): onebit/direct seconds=1 mpi=2 margin=1.25 calls=9")}) {
    const std::vector<KnownClass> all = parsed("# comment\n\n  " + line + "  # more\n");
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(to_string(all[0]), line);
  }
  EXPECT_TRUE(parsed("").empty());
}

TEST(Knowledge, every_damaged_line_is_an_error_that_names_it) {
  for (std::size_t cut = 1; cut < kLine.size(); ++cut) {
    const Result<std::vector<KnownClass>> all = parse_knowledge("\n" + kLine.substr(0, cut));
    // A number that lost its last digits is still a number.
    EXPECT_EQ(all.ok(), cut > kLine.find("calls=") + 6) << cut;
    EXPECT_TRUE(all.ok() || all.status().text().find("line 2") != std::string::npos);
  }
  for (const char* const bad : {"0 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f33 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @1 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 mpi: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: auto seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=-1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=nan margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=inf margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=0 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=-1", "\xff\xfe"})
    EXPECT_FALSE(parse_knowledge(bad).ok()) << bad;
}

TEST(Knowledge, the_nearest_size_counts_if_it_is_near) {
  const std::vector<KnownClass> all = parsed(
      "1000 f32 @2 auto: raw seconds=1 mpi=1 margin=1 calls=1\n3000 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1");
  const Automatic limit{Automatic::Kind::relative, 0};
  const auto bytes_for = [&](CallClass calls) {
    const KnownClass* const known = find_known(all, calls);
    return known == nullptr ? 0 : known->calls.bytes;
  };
  EXPECT_EQ(bytes_for({1500, kernels::Element::f32, 2, limit}), 1000u);
  EXPECT_EQ(bytes_for({2000, kernels::Element::f32, 2, limit}), 3000u);
  EXPECT_EQ(bytes_for({250, kernels::Element::f32, 2, limit}), 1000u);
  EXPECT_EQ(bytes_for({249, kernels::Element::f32, 2, limit}), 0u);
  EXPECT_EQ(bytes_for({1000, kernels::Element::f64, 2, limit}), 0u);
  EXPECT_EQ(bytes_for({1000, kernels::Element::f32, 3, limit}), 0u);
  EXPECT_EQ(bytes_for({1000, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.1}}), 0u);
}

// What one run has learnt decides the next run from its first call on, whatever its calls take.
TEST(Knowledge, the_next_run_chooses_the_same_each_time) {
  const CallClass calls{1 << 20, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.02}};
  World first(calls, kNetworks[0], 1);
  for (int i = 0; i < 300; ++i) first.call();
  ASSERT_NE(first.chooser.favourite(), 0u);
  const std::vector<KnownClass> all = parsed(to_string(first.chooser.known()));
  for (const Network& network : kNetworks) {
    World next(calls, network, 2);
    next.chooser.freeze(find_known(all, calls));
    std::uint64_t judgements = 0;
    for (int i = 0; i < 200; ++i) EXPECT_EQ(next.call().reduced_by, first.chooser.favourite());
    judgements = next.chooser.totals().judgements;
    EXPECT_GE(judgements, 1u);
    EXPECT_LE(judgements, 10u);
  }
  World unknown(calls, kNetworks[0], 1);
  unknown.chooser.freeze(nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(unknown.call().reduced_by, 0u);
}

// Its data lose too much: exact, also where the file says otherwise.
TEST(Knowledge, the_limit_holds_in_the_next_run_too) {
  const CallClass calls{1 << 20, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.02}};
  World world(calls, kNetworks[0], 1);
  const std::vector<KnownClass> all = parsed(kLine);
  world.chooser.freeze(&all[0]);
  world.error = [](const AutoCandidate&) { return 0.5; };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(world.call().reduced_by, 0u);
}

}  // namespace
}  // namespace mq
