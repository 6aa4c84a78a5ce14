// mpiq-bench sparse without MPI: index lists, words of methods, points and keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "bench/options.hpp"
#include "bench/points.hpp"
#include "bench/sparse_call.hpp"
#include "bench/sparse_check.hpp"
#include "bench/sparse_data.hpp"
#include "bench/sparse_method.hpp"

namespace mq::bench {
namespace {

constexpr std::uint64_t kSize = 200'000;
const char* const kSupports[] = {"uniform", "powerlaw:1.1", "powerlaw:0.5", "clustered:8", "correlated:0.3"};

SupportSpec spec_of(const char* word, double density) {
  SupportSpec spec = *parse_support(word);
  spec.density = density;
  return spec;
}

TEST(Support, lists_are_ascending_in_range_and_of_the_density) {
  for (const char* word : kSupports)
    for (const double density : {0.001, 0.05, 0.5}) {
      const SupportGenerator g(spec_of(word, density), kSize);
      double held = 0;
      for (int rank = 0; rank < 8; ++rank) {
        const auto list = g.indices(rank, 0);
        ASSERT_TRUE(std::is_sorted(list.begin(), list.end(), std::less_equal<>())) << word;
        ASSERT_FALSE(list.empty()) << word << ' ' << density;
        ASSERT_GE(list.front(), 0);
        ASSERT_LT(list.back(), static_cast<std::int64_t>(kSize));
        held += static_cast<double>(list.size());
      }
      // Runs of 8 make the number held vary as if there were 16 times fewer indices.
      EXPECT_NEAR(held / (8 * kSize) / density, 1, density < 0.01 ? 0.25 : 0.06) << word << ' ' << density;
    }
}

TEST(Support, of_density_1_is_everything) {
  for (const char* word : kSupports) {
    const auto list = SupportGenerator(spec_of(word, 1), 1000).indices(2, 0);
    EXPECT_GE(list.size(), 990U) << word;
  }
}

TEST(Support, small_ranges_do_not_break_it) {
  for (const char* word : kSupports)
    for (const std::uint64_t size : {1U, 2U, 3U, 17U})
      for (const std::int64_t i : SupportGenerator(spec_of(word, 0.4), size).indices(0, 0))
        EXPECT_TRUE(i >= 0 && i < static_cast<std::int64_t>(size));
}

TEST(Support, is_a_function_of_seed_rank_and_number) {
  for (const char* word : kSupports) {
    SupportSpec spec = spec_of(word, 0.02);
    const SupportGenerator g(spec, kSize);
    const auto list = g.indices(1, 0);
    EXPECT_EQ(SupportGenerator(spec, kSize).indices(1, 0), list) << word;
    EXPECT_NE(g.indices(2, 0), list) << word;
    EXPECT_NE(g.indices(1, 1), list) << word;
    spec.seed = 2;
    EXPECT_NE(SupportGenerator(spec, kSize).indices(1, 0), list) << word;
  }
}

// Of two ranks holding an index, over all indices.
double correlation(const SupportGenerator& g, std::uint64_t size) {
  double own = 0, both = 0;
  constexpr int kRanks = 8;
  std::vector<int> holders(size, 0);
  for (int r = 0; r < kRanks; ++r)
    for (const std::int64_t i : g.indices(r, 0)) ++holders[static_cast<std::size_t>(i)];
  for (const int h : holders) own += h, both += h * (h - 1);
  const double p = own / (kRanks * static_cast<double>(size));
  return (both / (kRanks * (kRanks - 1) * static_cast<double>(size)) - p * p) / (p * (1 - p));
}

TEST(Support, ranks_are_correlated_as_asked) {
  for (const double rho : {0.0, 0.25, 0.9, 1.0}) {
    SupportSpec spec = spec_of("correlated", 0.05);
    spec.parameter = rho;
    EXPECT_NEAR(correlation(SupportGenerator(spec, kSize), kSize), rho, 0.02);
  }
  EXPECT_NEAR(correlation(SupportGenerator(spec_of("uniform", 0.05), kSize), kSize), 0, 0.02);
}

// Each index is held with probability 1 - exp(-c r^-a), so -log(1 - p) falls by 2^a from r to 2 r.
TEST(Support, popularity_follows_the_exponent) {
  for (const double exponent : {0.7, 1.1, 1.5}) {
    SupportSpec spec = spec_of("powerlaw", 0.02);
    spec.parameter = exponent;
    const SupportGenerator g(spec, kSize);
    constexpr int kRanks = 400;
    std::vector<double> held(kSize, 0);
    for (int r = 0; r < kRanks; ++r)
      for (const std::int64_t i : g.indices(r, 0)) ++held[static_cast<std::size_t>(i)];
    std::sort(held.rbegin(), held.rend());
    const double rate = powerlaw_rate(spec.density, exponent, kSize);
    for (const std::size_t first : {20U, 200U, 2000U}) {  // the mean over popularities first .. 2 first
      double mean = 0, expected = 0;
      for (std::size_t r = first; r < 2 * first; ++r) {
        mean += held[r - 1] / kRanks;
        expected += -std::expm1(-rate * std::pow(static_cast<double>(r), -exponent));
      }
      EXPECT_NEAR(mean / expected, 1, 0.12) << exponent << ' ' << first;
    }
  }
}

TEST(Support, runs_are_as_long_as_asked) {
  const auto list = SupportGenerator(spec_of("clustered:32", 0.05), kSize).indices(0, 0);
  double runs = 1;
  for (std::size_t i = 1; i < list.size(); ++i) runs += list[i] != list[i - 1] + 1 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(list.size()) / runs, 32 / 0.95, 6) << "some gaps are empty";
}

TEST(Support, words_are_parsed_and_printed) {
  for (const char* word : kSupports) EXPECT_EQ(to_string(*parse_support(word)), word);
  EXPECT_EQ(to_string(*parse_support("powerlaw")), "powerlaw:1.1");
  for (const char* bad :
       {"", "zipf", "uniform:2", "powerlaw:", "powerlaw:x", "powerlaw:9", "correlated:1.5", "clustered:0"})
    EXPECT_FALSE(parse_support(bad).ok()) << bad;
}

// ---- methods

TEST(SparseMethods, have_one_canonical_word) {
  const std::pair<const char*, const char*> words[] = {{"kylix", "kylix"},
                                                       {"kylix/4x2", "kylix(degrees=4x2)"},
                                                       {"fused(degrees=8)", "fused(degrees=8)"},
                                                       {"union(algorithm=split)", "union(algorithm=split)"},
                                                       {"union(algorithm=auto)/dense", "union/dense"},
                                                       {"densify", "densify"}};
  for (const auto& [word, canonical] : words) {
    const auto method = parse_sparse_method(word);
    ASSERT_TRUE(method.ok()) << method.status().text();
    EXPECT_EQ(to_string(*method), canonical);
  }
  for (const char* bad : {"kylix/", "kylix/x", "kylix/4y2", "kylix/0", "kylix(degrees=)",
                          "kylix(degrees=2)/2", "kylix(x=2)", "union(degrees=2)", "union(algorithm=ring)",
                          "union(algorithm=ssar)", "union/list", "densify/2", "kylix(degrees=2", "onebit"})
    EXPECT_FALSE(parse_sparse_method(bad).ok()) << bad;
}

TEST(SparseMethods, degrees_fit_more_than_half_of_the_ranks) {
  EXPECT_TRUE(check_degrees("4x2", 8).ok());
  EXPECT_TRUE(check_degrees("4x2", 15).ok());
  EXPECT_FALSE(check_degrees("4x2", 16).ok());
  EXPECT_FALSE(check_degrees("4x2", 7).ok());
  EXPECT_FALSE(check_degrees("65536x65536x65536x65536x65536", 8).ok());
}

// ---- points

Options sparse_options() {
  const char* words[] = {"mpiq-bench",     "sparse",           "--sizes",   "24K",
                         "--density",      "0.01,0.1",         "--stride",  "1,3",
                         "--distribution", "uniform,powerlaw", "--methods", "mpi,kylix/2,union/dense",
                         "--dtype",        "f32,f64"};
  const CommandLine line = parse_command_line(static_cast<int>(std::size(words)), words);
  EXPECT_TRUE(line.run) << line.err;
  return line.options;
}

TEST(SparsePoints, are_every_combination_with_a_key_of_its_own) {
  const Options o = sparse_options();
  const auto points = make_points(o, 2);
  ASSERT_TRUE(points.ok()) << points.status().text();
  EXPECT_EQ(points->size(), 16U);
  std::set<std::string> keys;
  for (const Point& p : *points)
    for (const MethodWord& m : p.methods) keys.insert(hash128(variables_json(o, p, m, {1, 2})));
  EXPECT_EQ(keys.size(), 48U);
  Options other = o;
  other.sparse->want_union = true;
  EXPECT_EQ(keys.count(hash128(variables_json(other, points->front(), o.methods[0], {1, 2}))), 0U);
  other = o;
  other.sparse->fresh = true;
  EXPECT_EQ(keys.count(hash128(variables_json(other, points->front(), o.methods[0], {1, 2}))), 0U);
  EXPECT_NE(config_json(other), config_json(o));
  for (const Point& p : *points) EXPECT_LT(sparse_params(o, p).size() + sizeof "degrees=16x16x16,", 96U);
}

TEST(SparsePoints, that_cannot_be_run_are_refused) {
  Options o = sparse_options();
  EXPECT_NE(make_points(o, 5).status().text().find("kylix(degrees=2) at 5 ranks"), std::string::npos);
  o.sparse->strides = {5};
  EXPECT_NE(make_points(o, 2).status().text().find("stride 5"), std::string::npos);
  o = sparse_options();
  o.elements = {kernels::Element::bf16};
  EXPECT_NE(make_points(o, 2).status().text().find("bf16"), std::string::npos);
}

TEST(SparseCommandLine, names_what_is_wrong) {
  const auto error = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"mpiq-bench", "sparse"});
    const CommandLine line = parse_command_line(static_cast<int>(words.size()), words.data());
    EXPECT_FALSE(line.run);
    EXPECT_EQ(line.exit_code, kUsage);
    return line.err;
  };
  EXPECT_NE(error({"--density", "0"}).find("--density"), std::string::npos);
  EXPECT_NE(error({"--density", "2"}).find("--density"), std::string::npos);
  EXPECT_NE(error({"--distribution", "zipf"}).find("zipf"), std::string::npos);
  EXPECT_NE(error({"--in", "all"}).find("--in"), std::string::npos);
  EXPECT_NE(error({"--lists", "some"}).find("--lists"), std::string::npos);
  EXPECT_NE(error({"--methods", "kylix/y"}).find("degrees"), std::string::npos);
  EXPECT_FALSE(error({"--model", "vgg"}).empty()) << "models are dense";
  const char* dense[] = {"mpiq-bench", "allreduce", "--methods", "kylix"};
  EXPECT_NE(parse_command_line(4, dense).err.find("mpiq-bench sparse"), std::string::npos);
}

TEST(ExplainKylix, prints_layers_of_the_degrees_asked_for_and_needs_no_run) {
  const auto explain = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"mpiq-bench", "--explain-kylix"});
    return parse_command_line(static_cast<int>(words.size()), words.data());
  };
  CommandLine line = explain({"--ranks", "8", "--degrees", "4x2", "--entries", "10K", "--size", "1M"});
  EXPECT_FALSE(line.run);
  EXPECT_EQ(line.exit_code, kDone) << line.err;
  EXPECT_NE(line.out.find("8 ranks, 10240 of 1048576"), std::string::npos) << line.out;
  EXPECT_NE(line.out.find("degrees 4x2, as asked"), std::string::npos) << line.out;
  EXPECT_EQ(explain({"--help"}).exit_code, kDone);
  for (const auto& words : std::vector<std::vector<const char*>>{{"--degrees", "4x2"},  // of 64 ranks
                                                                 {"--degrees", "4y2"},
                                                                 {"--entries", "2M", "--size", "1M"},
                                                                 {"--density", "0"},
                                                                 {"--distribution", "clustered"},
                                                                 {"--bandwidth", "0"},
                                                                 {"--rank", "4"}}) {
    line = explain(words);
    EXPECT_EQ(line.exit_code, kUsage) << words[0];
    EXPECT_FALSE(line.err.empty()) << words[0];
  }
}

// ---- the reference

TEST(SparseSum, is_the_sum_of_all_lists) {
  for (const auto element : {kernels::Element::f32, kernels::Element::f64}) {
    const SparseShape shape{500, 3, element};
    const SparseInputs inputs{shape, SupportGenerator(spec_of("correlated", 0.2), 500), Generator({})};
    const SparseSum sum = sum_of_lists(inputs, 1, 5);
    std::vector<double> dense(500 * 3, 0);
    std::set<std::int64_t> held;
    for (int r = 0; r < 5; ++r) {
      const auto list = inputs.support.indices(r, 1);
      const auto bytes = inputs.list_values(r, 1, list);
      held.insert(list.begin(), list.end());
      for (std::size_t i = 0; i < list.size() * 3; ++i)
        dense[static_cast<std::size_t>(list[i / 3]) * 3 + i % 3] +=
            element == kernels::Element::f64
                ? reinterpret_cast<const double*>(bytes.data())[i]
                : static_cast<double>(reinterpret_cast<const float*>(bytes.data())[i]);
    }
    EXPECT_EQ(sum.indices, std::vector<std::int64_t>(held.begin(), held.end()));
    for (std::size_t i = 0; i < sum.sum.size(); ++i)
      EXPECT_NEAR(sum.sum[i], dense[static_cast<std::size_t>(sum.indices[i / 3]) * 3 + i % 3], 1e-15);
  }
}

}  // namespace
}  // namespace mq::bench
