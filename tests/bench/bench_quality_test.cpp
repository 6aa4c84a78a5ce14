// The optimum that errors of codecs are compared with, and the comparison itself.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/quality.hpp"

namespace mq::bench {
namespace {

std::vector<float> some_numbers(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.3F);
  std::vector<float> v(n);
  for (float& x : v) x = normal(random);
  return v;
}

// Sum of squares around the mean, of the elements i with digit `digit` in assignment[i].
double spread(const std::vector<float>& v, const std::vector<int>& assignment, int digit) {
  double sum = 0, squares = 0, n = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (assignment[i] != digit) continue;
    const auto x = static_cast<double>(v[i]);
    sum += x, squares += x * x, n += 1;
  }
  return n > 0 ? squares - sum * sum / n : 0;
}

// All assignments of n elements to `values` classes.
template <class F>
void for_each_assignment(std::size_t n, int values, const F& visit) {
  std::vector<int> assignment(n);
  for (bool more = true; more;) {
    visit(assignment);
    more = false;
    for (std::size_t i = 0; i < n && !more; ++i) {
      more = ++assignment[i] < values;
      if (!more) assignment[i] = 0;
    }
  }
}

TEST(Optimum, of_two_levels_is_the_best_of_all_partitions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto v = some_numbers(9, seed);
    double best = 1e300;
    for_each_assignment(v.size(), 2,
                        [&](const auto& a) { best = std::min(best, spread(v, a, 0) + spread(v, a, 1)); });
    EXPECT_NEAR(two_level_error(v), best, 1e-12) << seed;
  }
}

TEST(Optimum, of_ternary_codes_is_the_best_of_all_with_that_many_terms) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto v = some_numbers(8, seed);
    std::vector<double> best(v.size() + 1, 1e300);
    for_each_assignment(v.size(), 3, [&](const auto& a) {
      double zeros = 0;
      for (std::size_t i = 0; i < v.size(); ++i) {
        // An element above zero is not sent as one below: those codes do not exist.
        if ((a[i] == 1 && v[i] < 0) || (a[i] == 2 && v[i] > 0)) return;
        if (a[i] == 0) zeros += static_cast<double>(v[i]) * static_cast<double>(v[i]);
      }
      const auto k =
          static_cast<std::size_t>(std::count_if(a.begin(), a.end(), [](int c) { return c != 0; }));
      best[k] = std::min(best[k], zeros + spread(v, a, 1) + spread(v, a, 2));
    });
    for (std::size_t k = 0; k <= v.size(); ++k)
      EXPECT_NEAR(ternary_error(v, k), best[k], 1e-12) << seed << " " << k;
  }
}

TEST(Optimum, of_what_is_representable_is_zero) {
  const std::vector<float> two{3, 3, -1, 3, -1}, none(5, 0.0F), one(7, 2.5F);
  EXPECT_NEAR(two_level_error(two), 0, 1e-12);
  EXPECT_EQ(two_level_error(one), 0);
  EXPECT_EQ(two_level_error({}), 0);
  EXPECT_EQ(ternary_error(none, 0), 0);
  EXPECT_NEAR(ternary_error(one, 7), 0, 1e-12);
  EXPECT_NEAR(ternary_error(one, 3), 4 * 6.25, 1e-12);
  EXPECT_EQ(sparse_error(none, 0), 0);
  EXPECT_EQ(sparse_error(one, 7), 0);
  EXPECT_NEAR(sparse_error(two, 3), 2, 1e-12);
}

Quality quality_of(const char* method, const char* data, int calls = 1) {
  return measure_quality(*parse_methods(method), *parse_data(data), 1 << 16, calls).front();
}

TEST(Quality, of_one_bit_is_the_theory_and_near_the_optimum_where_the_data_are_symmetric) {
  const Quality normal = quality_of("onebit", "normal"), uniform = quality_of("onebit", "uniform");
  EXPECT_NEAR(normal.rel_err, std::sqrt(1 - 2 / std::numbers::pi), 5e-3);
  EXPECT_NEAR(uniform.rel_err, 0.5, 5e-3);
  for (const Quality& q : {normal, uniform}) {
    EXPECT_GE(q.over_optimum, 1);
    EXPECT_LT(q.over_optimum, 1.01);
    EXPECT_NEAR(q.bytes_per_element, 0.125 + 8.0 / 2048, 1e-12);
  }
  EXPECT_NEAR(quality_of("onebit(split=zero)", "ramp").over_optimum, 2, 0.01)
      << "a sign bit says nothing of values >= 0";
  EXPECT_NEAR(quality_of("onebit", "ramp").over_optimum, 1, 0.01) << "a bit that says: at least the mean";
}

TEST(Quality, of_bfloat16_is_that_of_correct_rounding) {
  for (const char* data : {"normal", "gradient", "uniform:4", "bits", "smooth"})
    EXPECT_NEAR(quality_of("bf16", data).over_optimum, 1, 1e-12) << data;
}

TEST(Quality, of_topk_is_that_of_the_largest_elements) {
  for (const char* data : {"normal", "laplace", "gradient", "sparse:0.05"})
    EXPECT_NEAR(quality_of("topk", data).over_optimum, 1, 1e-9) << data;
}

TEST(Quality, of_no_codec_is_better_than_the_optimum_or_than_its_bound) {
  const auto methods = quality_methods();
  for (const kernels::Codec& codec : kernels::codecs())
    EXPECT_TRUE(
        std::any_of(methods.begin(), methods.end(), [&](const auto& m) { return m.text == codec.name; }));
  for (const char* data : {"normal", "laplace", "gradient", "sparse:0.05", "ramp", "const", "zeros"})
    for (const Quality& q : measure_quality(methods, *parse_data(data), 20000, 3)) {
      EXPECT_FALSE(q.over_optimum < 1 - 1e-6) << q.method << " " << data << " " << q.over_optimum;
      EXPECT_TRUE(std::isfinite(q.rel_err) && std::isfinite(q.residual)) << q.method << " " << data;
      EXPECT_GT(q.bytes_per_element, 0) << q.method;
    }
}

TEST(Quality, is_measured_for_every_variant_of_a_codec_that_exists) {
  const auto methods = quality_methods();
  for (const std::string_view word : quality_variants()) {
    if (kernels::find_codec(word.substr(0, word.find('('))) == nullptr) continue;
    EXPECT_TRUE(std::any_of(methods.begin(), methods.end(), [&](const auto& m) { return m.text == word; }))
        << word;
  }
}

TEST(Quality, residual_grows_from_one_call_to_its_steady_state) {
  const double one = quality_of("onebit", "normal", 1).residual,
               many = quality_of("onebit", "normal", 40).residual;
  EXPECT_NEAR(one, quality_of("onebit", "normal").rel_err, 1e-6) << "the first residual is the first error";
  EXPECT_GT(many, 1.1 * one);
  EXPECT_LT(many, 1.9) << "Karimireddy et al. 2019";
}

TEST(Quality, of_recorded_files_reads_a_step_in_each_call) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("mpiq_quality_{}", getpid());
  std::filesystem::create_directories(folder);
  const std::vector<float> steps[2] = {{2, 1, 1, 1}, {1, -1, 1, -4}};
  for (int s = 0; s < 2; ++s)
    std::ofstream(folder / fmt::format("{}.f32", s), std::ios::binary)
        .write(reinterpret_cast<const char*>(steps[s].data()), 4 * sizeof(float));
  const auto data = parse_data("file:" + (folder / "{step}.f32").string());
  const std::vector<kernels::Element> types{kernels::Element::f32};
  const auto recording = Recording::open((folder / "{step}.f32").string(), 1, 0, types, 1);
  ASSERT_TRUE(data.ok() && recording.ok()) << recording.status().text();
  const auto methods = parse_methods("topk(k=0.25)");
  EXPECT_NEAR(measure_quality(*methods, *data, 4, 1, *recording).front().rel_err, std::sqrt(3.0 / 7), 1e-6);
  // What the first step left and the second, {0, 1, 1, 1} + {1, -1, 1, -4}, less its largest element.
  const double left = measure_quality(*methods, *data, 4, 2, *recording).front().residual;
  EXPECT_NEAR(left, std::sqrt(5.0 / 19), 1e-6);
  std::filesystem::remove_all(folder);
}

TEST(Quality, is_a_table_with_a_line_a_row_and_nothing_for_what_is_unknown) {
  const auto rows = measure_quality(*parse_methods("raw,onebit(block=64)"), *parse_data("zeros"), 100, 1);
  EXPECT_EQ(quality_csv(rows),
            "method,data,elements,bytes_per_element,rel_err,optimum,over_optimum,calls,residual\n"
            "\"raw\",zeros,100,4,0,,,1,0\n"
            "\"onebit(block=64)\",zeros,100,0.29,0,0,,1,0\n");
}

}  // namespace
}  // namespace mq::bench
