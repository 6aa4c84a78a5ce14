// Which vectors are one tensor, by the order of their magnitudes: sketches, and what follows from them call
// by call.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mpi_quant/memory/recognizer.hpp"

namespace mq::test {
namespace {

using kernels::Element;
using Match = Recognizer::Match;
using Vector = std::vector<float>;

constexpr std::size_t kN = 20000;

template <class T>
Sketch sketch_of(const std::vector<T>& x) {
  return Sketch::of(reinterpret_cast<const std::byte*>(x.data()), x.size(),
                    sizeof(T) == sizeof(double) ? Element::f64 : Element::f32);
}

// Vectors as programs sum them, from one source of chance.
class Vectors {
 public:
  Vector noise(float scale = 1) {
    Vector x(kN);
    for (float& v : x) v = scale * normal_(random_);
    return x;
  }
  // A tensor: noise whose deviation differs from element to element, by e^strength.
  Vector pattern(float strength) {
    Vector x = noise(strength);
    for (float& v : x) v = std::exp(v);
    return x;
  }
  Vector step_of(const Vector& pattern, float scale = 1) {
    Vector x = noise(scale);
    for (std::size_t i = 0; i < kN; ++i) x[i] *= pattern[i];
    return x;
  }
  // Sums of waves that are long against the distance of the positions.
  Vector smooth() {
    Vector x(kN);
    for (int wave = 1; wave < 12; ++wave) {
      const float amplitude = normal_(random_), phase = normal_(random_) * 9;
      for (std::size_t i = 0; i < kN; ++i)
        x[i] += amplitude * std::sin(static_cast<float>(wave) * static_cast<float>(i) / 3000 + phase);
    }
    return x;
  }
  std::mt19937 random_{3};

 private:
  std::normal_distribution<float> normal_;
};

// How often each match was given.
struct Count {
  int confirmed_at = -1;  // the first time
  int known = 0, strangers = 0, lost = 0;
  std::size_t period = 0;
};
template <class Make>
Count judge(int calls, const Make& make) {
  Recognizer recognizer;
  Count count;
  for (int t = 0; t < calls; ++t) {
    const Recognizer::Finding finding = recognizer.judge(sketch_of(make(t)));
    if (finding.match == Match::confirmed && count.confirmed_at < 0) count.confirmed_at = t;
    count.known += finding.match == Match::known;
    count.strangers += finding.match == Match::stranger;
    count.lost += finding.match == Match::lost;
    EXPECT_LT(finding.phase, std::max<std::size_t>(recognizer.period(), 1));
  }
  count.period = recognizer.period();
  return count;
}

TEST(Recognizers, one_tensor_is_known_from_the_fourth_call_on_at_any_scale) {
  Vectors make;
  for (const float strength : {0.8F, 1.5F, 3.0F}) {
    const Vector pattern = make.pattern(strength);
    const Count count = judge(100, [&](int t) {
      return make.step_of(pattern, std::pow(1.5F, static_cast<float>(t)));  // from 1 to 4e17
    });
    EXPECT_EQ(count.confirmed_at, 3) << strength;
    EXPECT_EQ(count.known, 96) << strength;
    EXPECT_EQ(count.period, 1U);
  }
}

TEST(Recognizers, a_weak_pattern_is_known_by_the_sum_of_its_evidence) {
  Vectors make;
  for (int tensor = 0; tensor < 5; ++tensor) {
    const Vector pattern = make.pattern(0.4F);  // consecutive steps correlate by 0.12
    const double c = correlation(sketch_of(make.step_of(pattern)), sketch_of(make.step_of(pattern)));
    EXPECT_GT(c, 0.03);
    EXPECT_LT(c, 0.2);
    const Count count = judge(150, [&](int) { return make.step_of(pattern); });
    EXPECT_GE(count.confirmed_at, 3);
    EXPECT_LE(count.confirmed_at, 16);
    EXPECT_GE(count.known, 149 - count.confirmed_at - 3);
    EXPECT_EQ(count.lost, 0);
  }
}

TEST(Recognizers, vectors_without_a_pattern_are_never_confirmed) {
  Vectors make;
  EXPECT_EQ(judge(600, [&](int) { return make.noise(); }).confirmed_at, -1);
  EXPECT_EQ(
      judge(300, [&](int t) { return make.noise(static_cast<float>(std::pow(10, t % 4))); }).confirmed_at,
      -1);
  EXPECT_EQ(judge(300, [&](int) { return make.smooth(); }).confirmed_at, -1)
      << "each with a structure of its own";
  EXPECT_EQ(judge(300, [&](int) { return make.pattern(2); }).confirmed_at, -1);
}

TEST(Recognizers, tensors_in_turn_are_told_apart_whatever_their_scales) {
  Vectors make;
  for (const std::size_t period : {2U, 3U, 4U, 15U, 16U}) {
    std::vector<Vector> patterns;
    for (std::size_t i = 0; i < period; ++i) patterns.push_back(make.pattern(1.5F));
    Recognizer recognizer;
    std::size_t first_phase = period;
    for (std::size_t t = 0; t < 6 * period; ++t) {
      const Recognizer::Finding finding =
          recognizer.judge(sketch_of(make.step_of(patterns[t % period], static_cast<float>(t % period + 1))));
      if (t < period + 2) {
        ASSERT_EQ(recognizer.period(), 0U) << t;
        continue;
      }
      ASSERT_EQ(recognizer.period(), period) << t;
      if (first_phase == period) first_phase = (finding.phase + period - t % period) % period;
      ASSERT_EQ(finding.phase, (t + first_phase) % period) << "of " << period << " at " << t;
    }
  }
}

// The sum and the sum of squares of one vector, or a gradient and its small copy, through one buffer: their
// magnitudes have the same order.
TEST(Recognizers, vectors_with_the_same_order_in_turn_are_told_apart_by_scale_and_sign) {
  for (const bool squares : {true, false}) {
    Vectors make;
    Recognizer recognizer;
    const Vector pattern = make.pattern(1);
    for (int call = 0; call < 60; ++call) {
      Vector x = make.step_of(pattern);
      if (call % 2 == 1)
        for (float& v : x) v = squares ? v * v : v / 1000;
      const Recognizer::Finding finding = recognizer.judge(sketch_of(x));
      EXPECT_NE(recognizer.period(), 1U) << squares << " call " << call;
      if (call >= 20) {
        EXPECT_EQ(finding.match, Match::known) << squares << " call " << call;
      }
    }
    EXPECT_EQ(recognizer.period(), 2U) << squares;
  }
}

TEST(Recognizers, a_tensor_whose_scale_drops_for_good_is_known_again_from_the_second_call_on) {
  Vectors make;
  Recognizer recognizer;
  const Vector pattern = make.pattern(1);
  for (int call = 0; call < 10; ++call) (void)recognizer.judge(sketch_of(make.step_of(pattern)));
  EXPECT_EQ(recognizer.judge(sketch_of(make.step_of(pattern, 1e-3F))).match, Match::stranger);
  for (int call = 0; call < 5; ++call)
    EXPECT_EQ(recognizer.judge(sketch_of(make.step_of(pattern, 1e-3F))).match, Match::known) << call;
}

TEST(Recognizers, more_tensors_in_turn_than_are_remembered_stay_strangers) {
  Vectors make;
  std::vector<Vector> patterns;
  for (int i = 0; i < 17; ++i) patterns.push_back(make.pattern(1.5F));
  EXPECT_EQ(judge(100, [&](int t) { return make.step_of(patterns[static_cast<std::size_t>(t % 17)]); })
                .confirmed_at,
            -1);
}

TEST(Recognizers, a_tensor_out_of_its_turn_is_still_known) {
  Vectors make;
  const std::vector<Vector> patterns{make.pattern(1.5F), make.pattern(1.5F), make.pattern(1.5F)};
  Recognizer recognizer;
  std::vector<std::size_t> phase_of(3, 99);
  for (std::size_t t = 0; t < 12; ++t) {
    const Recognizer::Finding finding = recognizer.judge(sketch_of(make.step_of(patterns[t % 3])));
    if (recognizer.period() > 0) phase_of[t % 3] = finding.phase;
  }
  for (int t = 0; t < 60; ++t) {
    const std::size_t which = make.random_() % 3;
    const Recognizer::Finding finding = recognizer.judge(sketch_of(make.step_of(patterns[which])));
    ASSERT_EQ(finding.match, Match::known) << t;
    ASSERT_EQ(finding.phase, phase_of[which]) << t;
  }
}

TEST(Recognizers, a_stranger_in_between_is_left_out_and_three_end_what_was_confirmed) {
  Vectors make;
  const Vector pattern = make.pattern(1.5F), other = make.pattern(1.5F);
  const Count mixed =
      judge(200, [&](int t) { return t > 10 && t % 7 < 2 ? make.noise() : make.step_of(pattern); });
  EXPECT_EQ(mixed.lost, 0);
  EXPECT_NEAR(mixed.strangers, 54, 2);
  const Count changed = judge(200, [&](int t) { return make.step_of(t < 100 ? pattern : other); });
  EXPECT_EQ(changed.lost, 1);
  EXPECT_EQ(changed.strangers, 2);
  EXPECT_EQ(changed.period, 1U) << "the other tensor is known soon";
  EXPECT_EQ(changed.known, 96 + 97 - 3);
}

TEST(Sketches, do_not_depend_on_the_scale_not_even_at_the_ends_of_the_range) {
  Vectors make;
  const Vector x = make.noise();
  const std::vector<double> wide(x.begin(), x.end());
  for (const int exponent : {-20, -1, 1, 20, 100}) {
    Vector scaled = x;
    for (float& v : scaled) v = std::ldexp(v, exponent);
    EXPECT_EQ(sketch_of(scaled).orders(), sketch_of(x).orders()) << exponent;
  }
  for (const int exponent : {-1000, -300, 0, 300, 1015}) {
    std::vector<double> scaled = wide;
    for (double& v : scaled) v = std::ldexp(v, exponent);
    EXPECT_EQ(sketch_of(scaled).orders(), sketch_of(x).orders()) << exponent;
  }
  for (const double extreme :
       {std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()}) {
    std::vector<double> few(100, extreme);
    few[3] = 0;
    EXPECT_FALSE(sketch_of(few).blank()) << extreme;
    EXPECT_TRUE(sketch_of(few).finite()) << extreme;
  }
}

TEST(Sketches, of_any_size_look_at_elements_of_the_vector_alone) {
  for (std::size_t n = 0; n < 2300; n += n < 40 ? 1 : 113) {
    Vector x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i + 1);
    const Sketch sketch = sketch_of(x);
    EXPECT_EQ(sketch.size(), std::min(n, Sketch::kMost));
    EXPECT_EQ(sketch.blank(), n < 2) << n;
    if (n > 1) {
      EXPECT_NEAR(correlation(sketch, sketch), 1, 1e-9);
    }
  }
}

TEST(Sketches, that_say_nothing_say_so) {
  EXPECT_TRUE(sketch_of(Vector(5000, 0)).blank());
  EXPECT_TRUE(sketch_of(Vector(5000, -7)).blank());
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Vector x(1000, 1);
    x[999] = bad;
    EXPECT_FALSE(sketch_of(x).finite());
  }
}

TEST(Sketches, of_strangers_do_not_correlate_and_wrong_positions_neither) {
  Vectors make;
  double most = 0;
  for (int i = 0; i < 50; ++i) {
    const Sketch a = sketch_of(make.pattern(1)), b = sketch_of(make.pattern(1));
    most = std::max({most, std::abs(correlation(a, b)), std::abs(correlation(a, a, 256)),
                     std::abs(correlation(a, b, 1792))});
  }
  EXPECT_LT(most, 0.12) << "five deviations of 1 / sqrt(2048)";
  EXPECT_GT(most, 0.02);
}

}  // namespace
}  // namespace mq::test
