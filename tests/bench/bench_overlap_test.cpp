// mpiq-bench --overlap, --form and --window: their options, the calls that they make of a method, and what
// the times say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bench/option_table.hpp"
#include "bench/options.hpp"
#include "bench/points.hpp"
#include "bench/stats.hpp"
#include "bench/sync.hpp"
#include "bench/work.hpp"

namespace mq::bench {
namespace {

CommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "mpiq-bench");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(Overlap, usage_errors_exit_with_two_and_name_the_word) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases{
      {{"allreduce", "--overlap", "0"}, "--overlap"},
      {{"allreduce", "--overlap", "50,10001"}, "10001"},
      {{"allreduce", "--overlap", "half"}, "half"},
      {{"allreduce", "--overlap", "100", "--mode", "isolated"}, "--overlap"},
      {{"allreduce", "--overlap", "100", "--memory", "cuda"}, "--overlap"},
      {{"allreduce", "--test-interval", "-1"}, "--test-interval"},
      {{"bcast", "--overlap", "100"}, "--overlap"}};
  for (const auto& [words, named] : cases) {
    const CommandLine line = parse(words);
    EXPECT_FALSE(line.run) << named;
    EXPECT_EQ(line.exit_code, kUsage) << named;
    EXPECT_NE((line.out + line.err).find(named), std::string::npos) << named << ": " << line.out << line.err;
  }
}

TEST(Overlap, is_a_condition_of_the_measurement) {
  const std::string plain = config_json(parse({"allreduce"}).options),
                    overlap = config_json(parse({"allreduce", "--overlap", "100,50"}).options);
  EXPECT_EQ(plain.find("overlap"), std::string::npos) << "older files can be continued: " << plain;
  EXPECT_EQ(plain.find("test_interval"), std::string::npos) << plain;
  EXPECT_NE(overlap.find(R"("overlap":[50,100])"), std::string::npos) << overlap;
  EXPECT_NE(overlap,
            config_json(parse({"allreduce", "--overlap", "50,100", "--test-interval", "0"}).options));
}

TEST(Overlap, each_method_computes_for_each_length_and_not_at_all) {
  const Options o =
      parse({"allreduce", "--sizes", "64K", "--methods", "mpi,bf16", "--overlap", "50,200"}).options;
  EXPECT_EQ(collective_name(o), "iallreduce");
  const auto points = make_points(o, 2);
  ASSERT_TRUE(points.ok()) << points.status().text();
  ASSERT_EQ(points->size(), 1U);
  const Point& p = points->front();
  std::vector<std::pair<std::string, int>> found;
  std::vector<std::string> keys;
  for (const MethodWord& m : p.methods) {
    found.emplace_back(m.text, m.compute_percent);
    keys.push_back(hash128(variables_json(o, p, m, {})));
  }
  // Those without computation come first: they tell how long to compute.
  EXPECT_EQ(found, (std::vector<std::pair<std::string, int>>{
                       {"mpi", 0}, {"bf16", 0}, {"mpi", 50}, {"bf16", 50}, {"mpi", 200}, {"bf16", 200}}));
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << found[i].second << found[j].second;
}

TEST(Form, usage_errors_exit_with_two_and_name_the_word) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases{
      {{"--form", "later"}, "--form"},
      {{"--window", "2"}, "--form nonblocking"},
      {{"--form", "nonblocking", "--window", "0"}, "--window"},
      {{"--form", "nonblocking", "--window", "65"}, "--window"},
      {{"--form", "nonblocking", "--overlap", "100"}, "--overlap"},
      {{"--form", "nonblocking", "--memory", "cuda"}, "--memory cuda"},
      {{"--form", "nonblocking", "--methods", "mpi,mpi/ring"}, "mpi/ring"},
      {{"--form", "persistent"}, "--buffers warm"},
      {{"--form", "nonblocking", "--window", "2", "--arrival", "one:50"}, "--arrival"},
      {{"--form", "nonblocking", "--window", "2", "--energy", "1"}, "--energy"}};
  for (auto [words, named] : cases) {
    words.insert(words.begin(), "allreduce");
    const CommandLine line = parse(words);
    EXPECT_EQ(line.exit_code, kUsage) << named;
    EXPECT_NE((line.out + line.err).find(named), std::string::npos) << named << ": " << line.out << line.err;
  }
}

TEST(Form, is_a_condition_of_the_measurement) {
  const std::vector<std::vector<const char*>> all{
      {"allreduce"},
      {"allreduce", "--form", "nonblocking"},
      {"allreduce", "--form", "nonblocking", "--window", "8"},
      {"allreduce", "--form", "persistent", "--buffers", "warm", "--window", "8"},
      {"bcast", "--form", "nonblocking"},
      {"bcast", "--form", "nonblocking", "--window", "8"}};
  std::vector<std::string> keys;
  for (const auto& words : all) {
    const Options o = parse(words).options;
    const std::string config = config_json(o);
    EXPECT_EQ(config.find("form") != std::string::npos, words.size() > 1) << "older files go on: " << config;
    EXPECT_EQ(config.find("window") != std::string::npos, o.window > 1) << config;
    const auto points = make_points(o, 2);
    ASSERT_TRUE(points.ok());
    keys.push_back(hash128(variables_json(o, points->front(), points->front().methods.front(), {})));
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " " << j;
  Options warm = parse({"allreduce", "--buffers", "warm"}).options;
  warm.window = 8;
  EXPECT_GE(pool_bytes(warm, 1 << 20, 1), 8U << 20) << "each call in flight has a result";
}

TEST(Overlap, is_the_hidden_part_of_the_shorter_one) {
  const auto of = [](double pure, double compute, double total) {
    return overlap_of(std::vector(9, pure), std::vector(9, compute), std::vector(9, total)).percent;
  };
  EXPECT_DOUBLE_EQ(of(1, 1, 2), 0);      // one after the other
  EXPECT_DOUBLE_EQ(of(1, 1, 1), 100);    // all at once
  EXPECT_DOUBLE_EQ(of(1, 2, 2.25), 75);  // as osu_iallreduce: 1 - (2.25 - 2) / 1
  EXPECT_DOUBLE_EQ(of(2, 1, 2.25), 75);  // the computation is the shorter one
  EXPECT_DOUBLE_EQ(of(1, 1, 3), 0);      // each slows the other down: never below 0
  EXPECT_DOUBLE_EQ(of(1, 1, 0.5), 100);
}

TEST(Overlap, has_the_interval_of_its_blocks) {
  const std::vector<double> pure(9, 1), compute(9, 1), total{1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9};
  const Overlap overlap = overlap_of(pure, compute, total);
  EXPECT_NEAR(overlap.percent, 50, 1e-9);
  EXPECT_NEAR(overlap.lo, 20, 1e-9);  // the second of nine
  EXPECT_NEAR(overlap.hi, 80, 1e-9);
  EXPECT_TRUE(std::isnan(overlap_of({}, {}, {}).percent));
}

TEST(Work, takes_time_in_proportion) {
  Work work;
  const auto shortest = [&](double seconds) {
    double least = 1e9;
    for (int i = 0; i < 20; ++i) {
      const double start = now_s();
      work(seconds);
      least = std::min(least, now_s() - start);
    }
    return least;
  };
  const double one = shortest(1e-4), ten = shortest(1e-3);
  EXPECT_GT(ten, 5 * one);
  EXPECT_LT(ten, 20 * one);
}

}  // namespace
}  // namespace mq::bench
