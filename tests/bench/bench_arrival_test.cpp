// mpiq-bench --arrival: its words, the delays of each pattern, and what they make of a sweep.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "bench/arrival.hpp"
#include "bench/option_table.hpp"
#include "bench/options.hpp"
#include "bench/points.hpp"
#include "bench/samples.hpp"

namespace mq::bench {
namespace {

using Pattern = Arrival::Pattern;
constexpr double kScale = 100 * 1e-6;  // seconds; of all patterns below

std::vector<Arrival> every_pattern() {
  std::vector<Arrival> all;
  for (const Pattern p : {Pattern::uniform, Pattern::exponential, Pattern::one, Pattern::ramp})
    all.push_back({p, 100});
  return all;
}

CommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "mpiq-bench");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(Arrival, words_are_read_and_written) {
  for (const char* word : {"together", "uniform:100", "exponential:0.5", "one:1000000", "ramp:20",
                           "one:100000.1", "one:100000.2"}) {
    const auto arrival = parse_arrival(word);
    ASSERT_TRUE(arrival.ok()) << arrival.status().text();
    EXPECT_EQ(to_string(*arrival), word);
  }
  EXPECT_EQ(parse_arrivals("together,one:5")->size(), 2U);
}

TEST(Arrival, wrong_words_are_errors_that_name_them) {
  for (const char* word : {"late", "uniform", "uniform:", "uniform:x", "uniform:0", "uniform:-1",
                           "uniform:nan", "uniform:inf", "one:1000001", "ramp:5us", "together:5", ""}) {
    const auto arrival = parse_arrival(word);
    ASSERT_FALSE(arrival.ok()) << word;
    EXPECT_NE(arrival.status().text().find(word), std::string::npos) << arrival.status().text();
  }
  EXPECT_FALSE(parse_arrivals("one:5,one:5.0").ok()) << "the same pattern twice";
}

TEST(Arrival, delays_are_a_function_of_seed_and_repetition) {
  for (const Arrival& arrival : every_pattern())
    for (const int ranks : {1, 2, 3, 64}) {
      std::set<std::vector<double>> seen;
      for (std::uint64_t repetition = 0; repetition < 20; ++repetition) {
        const auto delays = delays_s(arrival, ranks, 7, repetition);
        EXPECT_EQ(delays, delays_s(arrival, ranks, 7, repetition)) << to_string(arrival);
        ASSERT_EQ(delays.size(), static_cast<std::size_t>(ranks));
        EXPECT_GE(*std::min_element(delays.begin(), delays.end()), 0);
        seen.insert(delays);
      }
      const bool at_random = arrival.pattern == Pattern::uniform || arrival.pattern == Pattern::exponential;
      if (at_random) {
        EXPECT_EQ(seen.size(), 20U) << to_string(arrival) << ranks;
      }
      if (arrival.pattern == Pattern::ramp) {
        EXPECT_EQ(seen.size(), 1U);
      }
      if (arrival.pattern == Pattern::one && ranks == 64) {
        EXPECT_GT(seen.size(), 10U);
      }
      if (at_random) {
        EXPECT_NE(delays_s(arrival, ranks, 7, 0), delays_s(arrival, ranks, 8, 0));
      }
    }
}

TEST(Arrival, each_pattern_has_the_delays_that_it_names) {
  for (const double d : delays_s({}, 5, 1, 1)) EXPECT_EQ(d, 0);
  double uniform = 0, exponential = 0;
  constexpr int kRepetitions = 400, kRanks = 50;
  for (std::uint64_t r = 0; r < kRepetitions; ++r) {
    for (const double d : delays_s({Pattern::uniform, 100}, kRanks, 1, r)) {
      EXPECT_LT(d, kScale);
      uniform += d;
    }
    for (const double d : delays_s({Pattern::exponential, 100}, kRanks, 1, r)) {
      EXPECT_LE(d, 10 * kScale);
      exponential += d;
    }
    const auto one = delays_s({Pattern::one, 100}, kRanks, 1, r);
    EXPECT_EQ(std::count(one.begin(), one.end(), kScale), 1);
    EXPECT_EQ(std::count(one.begin(), one.end(), 0.0), kRanks - 1);
  }
  EXPECT_NEAR(uniform / kRepetitions / kRanks, kScale / 2, 0.01 * kScale);
  EXPECT_NEAR(exponential / kRepetitions / kRanks, kScale, 0.03 * kScale);
  EXPECT_EQ(delays_s({Pattern::ramp, 100}, 3, 1, 1), (std::vector<double>{0, kScale / 2, kScale}));
  EXPECT_EQ(delays_s({Pattern::ramp, 100}, 1, 1, 1), std::vector<double>{0});
}

TEST(Arrival, a_time_counts_from_the_last_arrival) {
  Sample early, last;
  early.start_s = 1, early.end_s = 6, early.before_last_s = 3;
  last.start_s = 4, last.end_s = 6;
  EXPECT_EQ(early.time_s(), 2);
  EXPECT_EQ(last.time_s(), 2);
}

TEST(Arrival, usage_errors_exit_with_two_and_name_the_word) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases{
      {{"allreduce", "--arrival", "soon"}, "soon"},
      {{"allreduce", "--arrival", "one:5", "--sync", "none"}, "--arrival"},
      {{"allreduce", "--arrival", "one:5", "--overlap", "100"}, "--arrival"},
      {{"allreduce", "--arrival", "one:5", "--memory", "cuda"}, "--arrival"},
      {{"link", "--arrival", "one:5"}, "--arrival"}};
  for (const auto& [words, named] : cases) {
    const CommandLine line = parse(words);
    EXPECT_FALSE(line.run) << named;
    EXPECT_EQ(line.exit_code, kUsage) << named;
    EXPECT_NE((line.out + line.err).find(named), std::string::npos) << named << ": " << line.out << line.err;
  }
}

TEST(Arrival, each_pattern_is_a_point_and_a_condition_of_the_measurement) {
  const Options plain = parse({"allreduce", "--sizes", "64K"}).options,
                late = parse({"allreduce", "--sizes", "64K", "--arrival", "together,one:5"}).options;
  EXPECT_EQ(config_json(plain).find("arrival"), std::string::npos) << "older files can be continued";
  EXPECT_NE(config_json(late).find(R"("arrival":["together","one:5"])"), std::string::npos)
      << config_json(late);
  const auto before = make_points(plain, 2), points = make_points(late, 2);
  ASSERT_TRUE(before.ok() && points.ok());
  ASSERT_EQ(points->size(), 2U);
  std::set<std::string> texts;
  for (const Point& p : *points) texts.insert(variables_json(late, p, p.methods.front(), {}));
  EXPECT_EQ(texts.size(), 2U);
  EXPECT_TRUE(texts.contains(variables_json(plain, before->front(), before->front().methods.front(), {})))
      << "a row of ranks that arrive together has the key that it had before";
}

}  // namespace
}  // namespace mq::bench
