// The benchmark's own arithmetic: statistics, input vectors and layer tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/data.hpp"
#include "bench/elements.hpp"
#include "bench/models.hpp"
#include "bench/random.hpp"
#include "bench/rows.hpp"
#include "bench/stats.hpp"
#include "kernels/hd.hpp"

namespace mq::bench {
namespace {

// ---- statistics

// The definition, in exact arithmetic: up to n = 58 the products fit 64 bits.
std::size_t interval_rank_by_definition(unsigned n) {
  const auto total = static_cast<long double>(std::uint64_t{1} << n);
  std::uint64_t binomial = 1, sum = 0;
  unsigned j = 0;
  while (j < n / 2 && static_cast<long double>(sum + binomial) / total <= 0.025L) {
    sum += binomial;
    binomial = binomial * (n - j) / (j + 1);
    ++j;
  }
  return j;
}

TEST(MedianInterval, needs_six_values) {
  EXPECT_EQ(median_interval_rank(0, 0.95), 0U);
  EXPECT_EQ(median_interval_rank(5, 0.95), 0U);
  EXPECT_EQ(median_interval_rank(6, 0.95), 1U);
}

TEST(MedianInterval,
     has_the_ranks_of_the_printed_tables) {  // Conover, Practical Nonparametric Statistics, sign test
  EXPECT_EQ(median_interval_rank(10, 0.95), 2U);
  EXPECT_EQ(median_interval_rank(20, 0.95), 6U);
  EXPECT_EQ(median_interval_rank(30, 0.95), 10U);
  EXPECT_EQ(median_interval_rank(100, 0.95), 40U);
}

TEST(MedianInterval, equals_its_definition_up_to_58) {
  for (unsigned n = 1; n <= 58; ++n)
    EXPECT_EQ(median_interval_rank(n, 0.95), interval_rank_by_definition(n)) << n;
}

TEST(MedianInterval, approaches_the_normal_one_at_ten_thousand) {
  const double expected = 0.5 * 10000 - 1.959964 * 0.5 * std::sqrt(10000.0);
  EXPECT_NEAR(static_cast<double>(median_interval_rank(10000, 0.95)), expected, 1.0);
}

TEST(MedianInterval, covers_the_median_at_least_as_often_as_promised) {
  Random random(7);
  int covered = 0;
  constexpr int kTrials = 4000;
  for (int t = 0; t < kTrials; ++t) {
    std::vector<double> sample(25);
    for (double& x : sample)
      x = std::exp(static_cast<double>(random.next() >> 11) * 0x1p-53);  // median sqrt(e)
    std::sort(sample.begin(), sample.end());
    const Interval ci = median_interval(sample, 0.95);
    covered += ci.lo <= std::sqrt(std::exp(1.0)) && std::sqrt(std::exp(1.0)) <= ci.hi ? 1 : 0;
  }
  EXPECT_GT(covered, kTrials * 94 / 100);
}

TEST(Summary, of_twenty_known_values) {
  std::vector<double> sample(20);
  std::iota(sample.begin(), sample.end(), 1.0);
  std::reverse(sample.begin(), sample.end());
  const Summary s = summarize(sample);
  EXPECT_EQ(s.median, 10.5);
  EXPECT_EQ(s.ci_lo, 6.0);
  EXPECT_EQ(s.ci_hi, 15.0);
  EXPECT_EQ(s.min, 1.0);
  EXPECT_EQ(s.mean, 10.5);
  EXPECT_EQ(s.p5, 1.0);
  EXPECT_EQ(s.p95, 19.0);
  EXPECT_EQ(s.mad, 5.0);
  EXPECT_TRUE(std::isnan(s.p99)) << "with fewer than 100 values it would be the maximum";
  EXPECT_GT(s.lag1, 0.8) << "a trend is autocorrelated";
  EXPECT_NEAR(relative_half_width(s), 4.5 / 10.5, 1e-15);
}

TEST(Summary, counts_outliers_and_keeps_them) {
  std::vector<double> sample;
  for (int i = 0; i < 100; ++i) sample.push_back(10.0 + i % 10);  // quartiles 12 and 17, range 5
  sample.push_back(28.0);                                         // 11 above: mild
  sample.push_back(100.0);                                        // severe
  const Summary s = summarize(sample);
  EXPECT_EQ(s.outliers_mild, 1);
  EXPECT_EQ(s.outliers_severe, 1);
  EXPECT_EQ(s.n, 102U);
  EXPECT_EQ(s.p99, 28.0);
}

TEST(Summary, of_nothing_is_unknown_and_not_zero) {
  const Summary s = summarize({});
  EXPECT_TRUE(std::isnan(s.median));
  EXPECT_TRUE(std::isnan(s.mean));
}

TEST(Speedup, is_found_under_drift_that_hides_it_from_unpaired_medians) {
  std::vector<double> base, variant;
  for (int k = 0; k < 40; ++k) {
    const double drift = std::exp(0.1 * k), noise = 1.0 + 0.01 * ((k * 7) % 5 - 2);
    base.push_back(3.0 * drift);
    variant.push_back(2.0 * drift * noise);
  }
  const Speedup s = paired_speedup(base, variant, 1);
  EXPECT_NEAR(s.ratio, 1.5, 0.01);
  EXPECT_GT(s.lo, 1.45);
  EXPECT_LT(s.hi, 1.55);
}

TEST(Speedup, interval_widens_with_the_number_of_methods) {
  std::vector<double> base(50, 1.0), variant(50);
  for (std::size_t k = 0; k < variant.size(); ++k)
    variant[k] = 1.0 + 0.01 * static_cast<double>((k * 37) % 50);
  const Speedup one = paired_speedup(base, variant, 1), many = paired_speedup(base, variant, 20);
  EXPECT_LT(many.lo, one.lo);
  EXPECT_GT(many.hi, one.hi);
  EXPECT_EQ(many.ratio, one.ratio);
}

TEST(Speedup, of_five_pairs_has_no_interval) {
  const std::vector<double> five(5, 1.0);
  EXPECT_TRUE(std::isnan(paired_speedup(five, five, 1).lo));
  EXPECT_EQ(paired_speedup(five, five, 1).ratio, 1.0);
}

// ---- input

constexpr std::size_t kElements = 200'000;

Generator generator(const char* word, double rho = 0, std::uint64_t seed = 11) {
  auto spec = parse_data(word);
  EXPECT_TRUE(spec.ok()) << spec.status().text();
  spec->rho = rho;
  spec->seed = seed;
  return Generator(*spec);
}

std::vector<double> values(const Generator& g, int rank, std::size_t n = kElements) {
  std::vector<double> x(n);
  g.fill(std::span(x), rank, 0);
  return x;
}

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double central_moment(const std::vector<double>& x, int order) {
  const double m = mean(x);
  double sum = 0;
  for (const double v : x) sum += std::pow(v - m, order);
  return sum / static_cast<double>(x.size());
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double mx = mean(x), my = mean(y);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - mx) * (y[i] - my);
  return sum / static_cast<double>(x.size()) / std::sqrt(central_moment(x, 2) * central_moment(y, 2));
}

struct Moments {
  const char* word;
  double deviation, kurtosis;
};

class DataMoments : public ::testing::TestWithParam<Moments> {};

TEST_P(DataMoments, are_those_of_the_distribution_with_and_without_correlation) {
  for (const double rho : {0.0, 0.9}) {
    const auto x = values(generator(GetParam().word, rho), 3);
    const double variance = central_moment(x, 2), sigma = GetParam().deviation;
    EXPECT_NEAR(mean(x), 0.0, 5.0 * sigma / std::sqrt(kElements)) << "rho " << rho;
    EXPECT_NEAR(std::sqrt(variance) / sigma, 1.0, 0.02) << "rho " << rho;
    EXPECT_NEAR(central_moment(x, 4) / (variance * variance) / GetParam().kurtosis, 1.0, 0.08)
        << "rho " << rho;
  }
}

INSTANTIATE_TEST_SUITE_P(Words, DataMoments,
                         ::testing::Values(Moments{"normal", 1e-3, 3.0},
                                           Moments{"laplace", std::sqrt(2.0) * 1e-3, 6.0},
                                           Moments{"uniform", 1.0 / std::sqrt(3.0), 1.8},
                                           Moments{"uniform:4", 4.0 / std::sqrt(3.0), 1.8},
                                           Moments{"sparse:0.1", 1e-3 * std::sqrt(0.1), 30.0}),
                         [](const auto& row) {
                           std::string name = row.param.word;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == ':' || c == '.'; }, '_');
                           return name;
                         });

TEST(Data, ranks_are_as_correlated_as_asked) {
  for (const double rho : {0.0, 0.5, 0.9}) {
    const Generator g = generator("normal", rho);
    EXPECT_NEAR(correlation(values(g, 0), values(g, 5)), rho, 0.01);
  }
  EXPECT_GT(correlation(values(generator("laplace", 0.9), 0), values(generator("laplace", 0.9), 1)), 0.8);
}

TEST(Data, any_piece_equals_the_same_piece_of_the_whole) {
  for (const char* word :
       {"normal", "laplace", "gradient", "sparse:0.05", "smooth", "uniform", "bits", "ramp", "const"}) {
    const Generator g = generator(word, 0);
    const Generator again = generator(word, 0);
    std::vector<float> whole(5000), piece(777);
    g.fill(std::span(whole), 2, 0);
    again.fill(std::span(piece), 2, 1234);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 1234)) << word;
    EXPECT_EQ(again.value<float>(2, 4999), whole[4999]) << word;
  }
}

TEST(Data, ranks_and_seeds_differ) {
  for (const char* word : {"normal", "laplace", "gradient", "smooth", "uniform", "bits"}) {
    EXPECT_NE(values(generator(word), 0, 64), values(generator(word), 1, 64)) << word;
    EXPECT_NE(values(generator(word, 0, 1), 0, 64), values(generator(word, 0, 2), 0, 64)) << word;
  }
}

TEST(Data, gradient_has_one_scale_for_each_block_on_all_ranks) {
  const Generator g = generator("gradient");
  const auto x = values(g, 0, 64 * 1024), y = values(g, 7, 64 * 1024);
  std::set<long> scales;
  for (std::size_t b = 0; b < 64; ++b) {
    const std::vector<double> bx(x.begin() + static_cast<long>(b * 1024),
                                 x.begin() + static_cast<long>((b + 1) * 1024));
    const std::vector<double> by(y.begin() + static_cast<long>(b * 1024),
                                 y.begin() + static_cast<long>((b + 1) * 1024));
    EXPECT_NEAR(central_moment(bx, 2) / central_moment(by, 2), 1.0, 0.35) << b;
    scales.insert(std::lround(10.0 * std::log(central_moment(bx, 2))));
  }
  EXPECT_GT(scales.size(), 40U);
}

TEST(Data, random_bits_are_finite_and_their_sums_too) {
  const Generator g = generator("bits");
  std::vector<float> sum(kElements, 0.0F);
  for (int rank = 0; rank < 128; ++rank)
    for (std::size_t i = 0; i < 2000; ++i) sum[i] += g.value<float>(rank, i);
  EXPECT_TRUE(std::all_of(sum.begin(), sum.end(), [](float x) { return std::isfinite(x); }));
  EXPECT_GT(summary_of<float>(std::span<const float>(std::vector<float>(sum))).exp_max, 90);
}

TEST(Data, facts_describe_known_vectors) {
  const std::vector<float> zeros(100, 0.0F);
  EXPECT_EQ(summary_of<float>(zeros).zero_frac, 1.0);
  EXPECT_EQ(summary_of<float>(zeros).entropy_bits, 0.0);
  const std::vector<float> mixed{0.0F, 1.0F, 8.0F, -0.25F};
  EXPECT_EQ(summary_of<float>(mixed).exp_min, -2);
  EXPECT_EQ(summary_of<float>(mixed).exp_max, 3);
  EXPECT_EQ(summary_of<float>(mixed).zero_frac, 0.25);
  std::vector<float> random(kElements);
  generator("bits").fill(std::span(random), 0, 0);
  EXPECT_GT(summary_of<float>(random).entropy_bits, 7.9);
}

TEST(Data, uniform_without_a_bound_is_uniform_1_in_numbers_and_name) {
  EXPECT_EQ(values(generator("uniform"), 1, 1000), values(generator("uniform:1"), 1, 1000));
  for (const auto& [word, name] : {std::pair{"uniform", "uniform"},
                                   {"uniform:1", "uniform"},
                                   {"uniform:4", "uniform:4"},
                                   {"uniform:0.5", "uniform:0.5"}})
    EXPECT_EQ(to_string(*parse_data(word)), name);
  const auto one = values(generator("uniform"), 0, 1000), four = values(generator("uniform:4"), 0, 1000);
  for (std::size_t i = 0; i < one.size(); ++i) ASSERT_EQ(four[i], 4 * one[i]);
}

TEST(Data, unknown_words_are_refused_by_name) {
  EXPECT_NE(parse_data("norml").status().text().find("norml"), std::string::npos);
  for (const char* word : {"", "sparse:", "sparse:0", "sparse:1.5", "sparse:x", "normal:3",
                           "zeros:", "uniform:", "uniform:0", "uniform:-4", "uniform:inf", "uniform:4x"})
    EXPECT_FALSE(parse_data(word).ok()) << word;
  DataSpec fixed{.distribution = Distribution::zeros, .rho = 0.5};
  EXPECT_FALSE(check_data(fixed).ok());
}

// ---- half types

// Every finite value of a half type, and what lies between neighbours.
template <class H>
void expect_rounding_to_nearest_even() {
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    const H h = H::from_bits(static_cast<std::uint16_t>(bits)),
            next = H::from_bits(static_cast<std::uint16_t>(bits + 1));
    const double x = static_cast<double>(h), above = static_cast<double>(next);
    if (!std::isfinite(x)) break;
    ASSERT_EQ(H(x).bits(), bits);
    ASSERT_EQ(H(-x).bits(), bits | 0x8000U);
    if (!std::isfinite(above)) continue;
    const double middle = 0.5 * (x + above);
    ASSERT_EQ(H(middle).bits(), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(H(std::nextafter(middle, 0)).bits(), bits);
    ASSERT_EQ(H(std::nextafter(middle, above)).bits(), bits + 1);
  }
  EXPECT_TRUE(std::isnan(static_cast<double>(H(std::nan("")))));
  EXPECT_EQ(static_cast<double>(H(-INFINITY)), -INFINITY);
}

TEST(Half, rounds_to_the_nearest_value_and_ties_to_even) {
  expect_rounding_to_nearest_even<Float16>();
  expect_rounding_to_nearest_even<Bfloat16>();
}

TEST(Half, has_the_values_of_the_formats) {
  EXPECT_EQ(static_cast<double>(Float16::from_bits(0x7bff)), 65504.0);
  EXPECT_EQ(static_cast<double>(Float16::from_bits(0x0001)), 0x1p-24);
  EXPECT_EQ(static_cast<double>(Float16::from_bits(0x3555)), 0.333251953125);
  EXPECT_EQ(Float16(65519.99).bits(), 0x7bff);
  EXPECT_EQ(Float16(65520.0).bits(), 0x7c00) << "half a unit beyond the largest is infinite";
  EXPECT_EQ(Float16(1e300).bits(), 0x7c00);
  EXPECT_EQ(Bfloat16(0x1p128).bits(), 0x7f80);
  for (const float x : {1.0F, -3.14159F, 1e-40F, 3e38F, 7.5e-3F})
    EXPECT_EQ(Bfloat16(static_cast<double>(x)).bits(),
              kernels::bf16_from_bits(std::bit_cast<std::uint32_t>(x)));
}

TEST(Half, vectors_are_the_rounded_vectors_of_doubles) {
  for (const char* word : {"normal", "laplace", "gradient", "sparse:0.05", "smooth", "uniform:4", "ramp"}) {
    std::vector<Float16> halves(1000);
    generator(word).fill(std::span(halves), 2, 5);
    const auto x = values(generator(word), 2, 1005);
    for (std::size_t i = 0; i < halves.size(); ++i)
      ASSERT_EQ(halves[i].bits(), Float16(x[i + 5]).bits()) << word;
  }
  EXPECT_EQ(summary_of<Float16>(std::vector<Float16>(100)).zero_frac, 1.0);
}

template <class H>
void expect_finite_sums_of_random_bits() {
  const Generator g = generator("bits");
  for (std::uint64_t i = 0; i < 2000; ++i) {
    double sum = 0;
    for (int rank = 0; rank < 128; ++rank) sum += std::abs(static_cast<double>(g.value<H>(rank, i)));
    ASSERT_TRUE(std::isfinite(static_cast<double>(H(sum))));
  }
}

TEST(Half, random_bits_are_finite_and_their_sums_too) {
  expect_finite_sums_of_random_bits<Float16>();
  expect_finite_sums_of_random_bits<Bfloat16>();
}

// ---- models

TEST(Models, have_the_published_numbers_of_parameters) {
  for (const Model& model : models()) {
    std::uint64_t total = 0;
    for (const Layer& layer : model.layers()) total += layer.count;
    EXPECT_EQ(total, model.published_total) << model.name;
  }
}

TEST(Models, layers_have_different_names_that_fit_their_column) {
  for (const Model& model : models()) {
    std::set<std::string> names;
    for (const Layer& layer : model.layers()) {
      EXPECT_TRUE(names.insert(layer.name).second) << model.name << " " << layer.name;
      EXPECT_LE(layer.name.size(), sizeof(PointRow::layer)) << layer.name;
    }
  }
}

}  // namespace
}  // namespace mq::bench
