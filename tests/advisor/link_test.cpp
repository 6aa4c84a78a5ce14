// The model behind predictions: what fits points of a link, and what a plan costs on it.

#include "mpi_quant/advisor/link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "mpi_quant/advisor/predict.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/plan/promises.hpp"

namespace mq::test {
namespace {

using kernels::Element;

const PlanRow& plan_of(std::string_view name) { return *find_plan(name); }

std::vector<LinkPoint> points_of(double alpha, double beta) {
  std::vector<LinkPoint> points;
  for (const double bytes : {0x1p10, 0x1p13, 0x1p16, 0x1p19, 0x1p22})
    points.push_back({bytes, alpha + beta * bytes});
  return points;
}

double residual(std::span<const LinkPoint> points, const LinkModel& model) {
  double sum = 0;
  for (const LinkPoint& p : points)
    sum += (model.seconds(p.bytes) / p.seconds - 1) * (model.seconds(p.bytes) / p.seconds - 1);
  return std::sqrt(sum / static_cast<double>(points.size()));
}

TEST(Link, a_link_that_obeys_the_model_is_found_without_a_residual) {
  for (const double alpha : {1e-7, 2e-6, 5e-4})
    for (const double beta : {1e-11, 1e-9, 8e-8}) {
      const LinkModel model = fit(points_of(alpha, beta));
      EXPECT_NEAR(model.alpha_s, alpha, 1e-6 * alpha);
      EXPECT_NEAR(model.beta_s, beta, 1e-6 * beta);
      EXPECT_LT(model.residual, 1e-6);
    }
}

TEST(Link, no_other_model_fits_better) {
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> noise(0.5, 2);
  for (int round = 0; round < 100; ++round) {
    auto points = points_of(1e-5, 1e-9);
    for (LinkPoint& p : points) p.seconds *= noise(random);
    const LinkModel model = fit(points);
    ASSERT_GE(model.alpha_s, 0);
    ASSERT_GE(model.beta_s, 0);
    ASSERT_NEAR(model.residual, residual(points, model), 1e-12);
    for (const double a : {0.98, 1.0, 1.02})
      for (const double b : {0.98, 1.0, 1.02})
        ASSERT_GE(residual(points, {model.alpha_s * a, model.beta_s * b, 0}), model.residual - 1e-12);
  }
}

TEST(Link, neither_number_is_negative) {
  const std::vector<LinkPoint> falling{{1e3, 2.0}, {1e6, 1.0}}, steep{{1e3, 1e-6}, {1e6, 1.0}};
  EXPECT_EQ(fit(falling).beta_s, 0);
  EXPECT_GT(fit(falling).alpha_s, 0);
  EXPECT_EQ(fit(steep).alpha_s, 0);
  EXPECT_GT(fit(steep).beta_s, 0);
}

TEST(Link, points_of_one_size_and_points_without_time_are_not_the_end) {
  const std::vector<LinkPoint> one{{1e3, 2.0}, {1e3, 2.0}, {1e3, 0}};
  EXPECT_DOUBLE_EQ(fit(one).seconds(1e3), 2.0);
  EXPECT_EQ(fit({}).seconds(1e6), 0);
}

TEST(Predict, work_of_a_plan_is_what_its_table_says) {
  const PlanWork direct = work_of(plan_of("direct"), {.size = 8}),
                 all = work_of(plan_of("allgather"), {.size = 8}),
                 doubling = work_of(plan_of("recursive_doubling"), {.size = 8});
  EXPECT_EQ(direct.rounds, 2);
  EXPECT_EQ(direct.messages, 14);
  EXPECT_DOUBLE_EQ(direct.moved, 14.0 / 8);
  EXPECT_DOUBLE_EQ(direct.encoded, 1);  // 7 slices of others, and the own aggregate
  EXPECT_DOUBLE_EQ(direct.decoded, 15.0 / 8);
  EXPECT_EQ(all.rounds, 1);
  EXPECT_DOUBLE_EQ(all.moved, 7);
  EXPECT_DOUBLE_EQ(all.decoded, 8);
  EXPECT_EQ(doubling.rounds, 3);
  EXPECT_DOUBLE_EQ(doubling.moved, 3);
  EXPECT_DOUBLE_EQ(doubling.decoded, 6);
}

TEST(Predict, exact_sums_cost_another_encode_and_lose_nothing_but_the_contributions) {
  const Ranks ranks{.size = 8, .encodes_own = true};
  const PlanWork direct = work_of(plan_of("direct"), ranks), all = work_of(plan_of("allgather"), ranks);
  EXPECT_DOUBLE_EQ(direct.encoded, 9.0 / 8);
  EXPECT_DOUBLE_EQ(direct.decoded, 2);
  EXPECT_DOUBLE_EQ(direct.moved, 14.0 / 8);
  EXPECT_DOUBLE_EQ(all.decoded, 8);
  for (const PlanRow& plan : plans()) {
    EXPECT_DOUBLE_EQ(losses_of(plan, ranks).contributions, 1) << plan.name;
    EXPECT_DOUBLE_EQ(losses_of(plan, ranks).aggregate, 0) << plan.name;
  }
}

TEST(Predict, losses_of_a_plan_are_its_encodings) {
  EXPECT_DOUBLE_EQ(losses_of(plan_of("direct"), {.size = 4}).contributions, 0.75);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("direct"), {.size = 4}).aggregate, 1);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("allgather"), {.size = 2}).contributions, 1);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("allgather"), {.size = 2}).aggregate, 0);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("recursive_doubling"), {.size = 16}).contributions, 1);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("recursive_doubling"), {.size = 16}).aggregate, 3);
}

// Every loss is in the result. One of a sum of k ranks counts as k/P of one of the result.
TEST(Predict, losses_of_plans_that_encode_partial_sums_are_those_that_the_proof_finds) {
  for (const std::string_view name : {"direct", "allgather", "ring", "halving_doubling"})
    for (int size = 2; size <= 33; ++size) {
      const Ranks ranks{0, size};
      symbolic::Terms terms;
      const symbolic::Outcome out = symbolic::interpret(make_all(plan_of(name), ranks), false, terms);
      double contributions = 0, aggregate = 0;
      for (const symbolic::Terms::Id result : out.output[0]) {
        symbolic::Terms::Linear total;
        terms.add(total, result, 1);
        terms.for_each_loss_in(total,
                               [&](int inputs) { (inputs == 1 ? contributions : aggregate) += inputs; });
      }
      const double all = static_cast<double>(size) * static_cast<double>(out.output[0].size());
      const Losses losses = losses_of(plan_of(name), ranks);
      EXPECT_NEAR(losses.contributions, contributions / all, 1e-9) << name << ", " << size << " ranks";
      EXPECT_NEAR(losses.aggregate, aggregate / all, 1e-9) << name << ", " << size << " ranks";
    }
}

TEST(Predict, two_ranks_cost_what_a_hand_finds) {
  const LinkModel link{3e-6, 2e-9, 0};
  const CodecRates rates{1e-10, 2e-10, 3e-11, 4e-11, 0.127};
  for (const std::size_t count :
       {std::size_t{16384}, std::size_t{65536}, std::size_t{1} << 22, std::size_t{1} << 25}) {
    const double chunk = count < std::size_t{1} << 23 ? 65536 : 131072;
    const double n = static_cast<double>(count), segments = std::ceil(n / chunk);
    const double codec = n * (1e-10 + 2 * 2e-10 + 2 * 4e-11);  // its own vector is decoded too
    const double wire = 2e-9 * (n * 0.127 + 32 * segments);
    const double first = std::min(1.0, chunk / n);
    const double expected =
        2 * 3e-6 + n * 3e-11 + std::max(codec, wire) + first * std::min(codec, wire);  // agreement and round
    EXPECT_NEAR(predict(choose_plan(4 * count, 2), {.size = 2}, count, Element::f32, rates, link), expected,
                1e-12 * expected);
  }
}

TEST(Predict, nothing_that_costs_more_makes_a_call_shorter) {
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> exponent(-3, 3);
  const auto around = [&](double v) { return v * std::pow(10, exponent(random)); };
  for (int round = 0; round < 300; ++round) {
    const PlanRow& plan = plans()[static_cast<std::size_t>(round) % plans().size()];
    const Ranks ranks{.size = 2 + round % 31, .encodes_own = round % 3 == 0};
    const Element element = round % 2 ? Element::f32 : Element::f64;
    const auto count = static_cast<std::size_t>(around(1e6));
    const LinkModel link{around(1e-5), around(1e-9), 0};
    const CodecRates rates{around(1e-10), around(1e-10), around(1e-11), around(1e-11), around(0.1)};
    const double t = predict(plan, ranks, count, element, rates, link);
    const auto costs = [&](std::size_t n, CodecRates r, LinkModel l) {
      return predict(plan, ranks, n, element, r, l);
    };
    LinkModel slower = link, later = link;
    slower.beta_s *= 1.5;
    later.alpha_s *= 1.5;
    ASSERT_GE(costs(count, rates, slower), t);
    ASSERT_GE(costs(count, rates, later), t);
    for (double CodecRates::*const rate :
         {&CodecRates::encode_s, &CodecRates::decode_s, &CodecRates::measure_s, &CodecRates::memory_s,
          &CodecRates::wire_bytes}) {
      CodecRates dearer = rates;
      dearer.*rate *= 1.5;
      ASSERT_GE(costs(count, dearer, link), t);
    }
    for (const std::size_t more : {count + 1, count + 777, 2 * count, 9 * count})
      ASSERT_GE(costs(more, rates, link), t);
    const double wire =
        link.beta_s * work_of(plan, ranks).moved * static_cast<double>(count) * rates.wire_bytes;
    ASSERT_GE(t, wire);
  }
}

TEST(Predict, a_free_codec_at_two_ranks_is_the_link_and_dense_sums_are_too) {
  const LinkModel link{0, 1e-9, 0};
  EXPECT_DOUBLE_EQ(predict_dense(1e6, 2, link), 1e-3);
  EXPECT_DOUBLE_EQ(predict_dense(1e6, 4, link), 1.5e-3);
  const double t = predict(plan_of("allgather"), {.size = 2}, 1 << 20, Element::f32, {0, 0, 0, 0, 4}, link);
  EXPECT_NEAR(t, 4.0 * 0x1p20 * 1e-9, 1e-3 * t);
}

}  // namespace
}  // namespace mq::test
