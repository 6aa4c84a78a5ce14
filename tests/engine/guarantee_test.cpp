// The guarantee of codecs with an absolute bound, over whole reductions: every element of the result is
// within the bound (and the rounding of an ordinary sum) of the exact sum, on any number of ranks and over
// every plan.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

constexpr double kBounds[]{1e-6, 1e-3, 0.3, 100};

template <class T>
Vectors<T> vectors(Input kind, int ranks, std::size_t n) {
  Vectors<T> x;
  for (int r = 0; r < ranks; ++r) x.push_back(make_input<T>(kind, n, seed() + static_cast<std::uint64_t>(r)));
  return x;
}

// Within `abs` and the rounding of an ordinary sum.
template <class T>
void expect_within(const Outcome<T>& got, const Vectors<T>& x, double abs, const std::string& where) {
  const auto unit = std::ldexp(static_cast<long double>(x.size()), -std::numeric_limits<T>::digits);
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    long double sum = 0, magnitudes = 0;
    for (const auto& v : x) {
      sum += static_cast<long double>(v[i]);
      magnitudes += std::abs(static_cast<long double>(v[i]));
    }
    ASSERT_LE(std::abs(static_cast<long double>(got.output[0][i]) - sum),
              static_cast<long double>(abs) + magnitudes * unit)
        << where << " at " << i;
  }
}

template <class T>
void expect_guarantee(Scene scene, double abs, Input kind, std::size_t n) {
  scene.feedback = false;
  scene.values = {{0, abs}};
  const auto x = vectors<T>(kind, scene.ranks, n);
  for (const PlanRow& plan : plans()) {
    scene.plan = &plan;
    scene.per_node = plan.name == "hierarchical" && scene.ranks % 2 == 0 ? 2 : 1;
    const std::string where = scene.describe(n) + std::string(name(kind)) + " within " + std::to_string(abs);
    const Outcome<T> got = run(scene, x, zeros<T>(scene.ranks, n));
    expect_sound(got, where);
    expect_within(got, x, abs, where);
  }
}

TEST(Guarantee, every_result_is_within_the_bound_of_the_exact_sum) {
  const Codec* const codec = kernels::find_codec("bound");
  ASSERT_NE(codec, nullptr);
  for (const int ranks : kSanitized ? std::vector{3, 8} : std::vector{2, 3, 4, 5, 6, 7, 8})
    for (const double abs : kBounds)
      for (const Input kind :
           {Input::normal, Input::laplace, Input::one_sided, Input::spikes, Input::mixed_scales})
        for (const std::size_t n : {1, 300, 9001}) {
          expect_guarantee<float>({codec, nullptr, ranks}, abs, kind, n);
          expect_guarantee<double>({codec, nullptr, ranks}, abs, kind, n);
        }
}

// Multiples of the step are added exactly, in any order, while the sums are short enough for the type. A
// third of the elements lie half-way between two multiples, where rounding is to even.
template <class T>
Vectors<T> with_ties(int ranks, std::size_t n, T step) {
  Vectors<T> x = vectors<T>(Input::normal, ranks, n);
  for (auto& v : x)
    for (std::size_t i = 0; i < n; i += 3) v[i] = (std::floor(v[i] / step) + static_cast<T>(0.5)) * step;
  return x;
}

template <class T>
void expect_same_bits(Scene scene, std::size_t n) {
  scene.values = {{0, 1e-2}};
  const auto step = static_cast<T>(2 * scene.codec->absolute_bound(scene.params(), scene.ranks));
  const auto x = with_ties<T>(scene.ranks, n, step);
  std::optional<Outcome<T>> first;
  for (const PlanRow& plan : plans())
    for (const int per_node : node_sizes(plan, scene.ranks))
      for (const bool feedback : {true, false}) {
        scene.plan = &plan;
        scene.per_node = per_node;
        scene.feedback = feedback;
        const Outcome<T> got = run(scene, x, zeros<T>(scene.ranks, n));
        expect_sound(got, scene.describe(n));
        if (!first) first = got;
        ASSERT_EQ(got.output, first->output) << scene.describe(n);
        if (feedback) {
          ASSERT_EQ(got.residual, first->residual) << scene.describe(n);
        }
      }
}

TEST(Guarantee, all_plans_and_nodes_give_the_same_bits_and_keep_the_same_residuals) {
  const Codec* const codec = kernels::find_codec("bound");
  for (const int ranks : kSanitized ? std::vector{3, 8} : std::vector{2, 3, 4, 5, 6, 7, 8, 12})
    for (const std::size_t n : {1, 300, 9001}) {
      expect_same_bits<float>({codec, nullptr, ranks}, n);
      expect_same_bits<double>({codec, nullptr, ranks}, n);
    }
}

// With feedback it is the vector and what was left out before that is rounded.
TEST(Guarantee, with_feedback_the_sum_of_all_results_is_within_the_bound_and_each_within_twice_the_bound) {
  const double abs = 0.25;
  for (const int ranks : {2, 3, 5}) {
    Scene scene{kernels::find_codec("bound"), &plans()[0], ranks};
    scene.values = {{0, abs}};
    const std::size_t n = 500;
    auto residual = zeros<double>(ranks, n);
    Outcome<double> all{zeros<double>(ranks, n), {}, {}, {}, 0};
    Vectors<double> x_all = zeros<double>(ranks, n);
    for (int call = 0; call < 10; ++call) {
      Vectors<double> x;
      for (int r = 0; r < ranks; ++r)
        x.push_back(make_input<double>(Input::normal, n, static_cast<std::uint64_t>(100 * call + r)));
      const Outcome<double> got = run(scene, x, residual);
      expect_within(got, x, 2 * abs, "one call");
      for (std::size_t i = 0; i < n; ++i) all.output[0][i] += got.output[0][i];
      for (std::size_t r = 0; r < x.size(); ++r)
        for (std::size_t i = 0; i < n; ++i) x_all[r][i] += x[r][i];
      residual = got.residual;
      expect_within(all, x_all, abs + 1e-12, "all calls");
    }
  }
}

TEST(Guarantee, of_growth_sqrt_is_weaker_by_the_root_of_the_ranks_and_usually_as_good) {
  const Codec* const codec = kernels::find_codec("bound");
  const double abs = 1e-3;
  for (const int ranks : {4, 7}) {
    Scene scene{codec, &plans()[0], ranks};
    scene.feedback = false;
    scene.values = {{0, abs}, {1, 1}};
    const std::size_t n = 20000;
    const auto x = vectors<float>(Input::normal, ranks, n);
    const Outcome<float> got = run(scene, x, zeros<float>(ranks, n));
    std::size_t beyond = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (const auto& v : x) sum += static_cast<double>(v[i]);
      const double error = std::abs(static_cast<double>(got.output[0][i]) - sum);
      ASSERT_LE(error, abs * std::sqrt(ranks)) << i;
      beyond += error > abs;
    }
    EXPECT_LE(beyond, n / 10) << ranks;
  }
}

TEST(Guarantee, costs_fewer_bytes_where_the_bound_is_wider_or_the_data_smooth) {
  const Codec* const codec = kernels::find_codec("bound");
  const auto bytes = [&](double abs, const Vectors<double>& x) {
    Scene scene{codec, &plans()[0], static_cast<int>(x.size())};
    scene.feedback = false;
    scene.values = {{0, abs}};
    const Outcome<double> got = run(scene, x, zeros<double>(scene.ranks, x[0].size()));
    return got.tally[0].sent_bytes;
  };
  const std::size_t n = 100000;
  const auto noise = vectors<double>(Input::normal, 2, n);
  Vectors<double> smooth(2, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) smooth[0][i] = smooth[1][i] = std::sin(static_cast<double>(i) / 1000);
  EXPECT_LT(bytes(1e-2, noise), bytes(1e-4, noise) * 3 / 4);
  EXPECT_LT(bytes(1e-4, noise), bytes(1e-12, noise) * 3 / 4);
  EXPECT_LT(bytes(1e-6, smooth), bytes(1e-6, noise) * 3 / 5);
}

}  // namespace
}  // namespace mq::test
