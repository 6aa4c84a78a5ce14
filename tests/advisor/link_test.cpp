// The model behind predictions: what fits points of a link, what a plan costs on it, and how often it rounds.

#include "mpi_quant/base/link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "mpi_quant/advisor/predict.hpp"
#include "mpi_quant/plan/losses.hpp"
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
      EXPECT_NEAR(model.alpha_s(), alpha, 1e-6 * alpha);
      EXPECT_NEAR(model.beta_s, beta, 1e-6 * beta);
      EXPECT_LT(model.residual, 1e-6);
    }
}

TEST(Link, the_shortest_and_the_longest_message_tell_the_model_and_the_others_how_far_off_it_is) {
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> noise(0.5, 2);
  for (int round = 0; round < 100; ++round) {
    auto points = points_of(1e-5, 1e-9);
    for (std::size_t i = 1; i + 1 < points.size(); ++i) points[i].seconds *= noise(random);
    std::shuffle(points.begin(), points.end(), random);
    const LinkModel model = fit(points);
    ASSERT_NEAR(model.alpha_s(), 1e-5, 1e-12);
    ASSERT_NEAR(model.beta_s, 1e-9, 1e-16);
    ASSERT_NEAR(model.residual, residual(points, model), 1e-12);
  }
}

TEST(Link, neither_number_is_negative) {
  const std::vector<LinkPoint> falling{{1e3, 2.0}, {1e6, 1.0}}, steep{{1e3, 1e-6}, {1e6, 1.0}};
  EXPECT_EQ(fit(falling).beta_s, 0);
  EXPECT_GT(fit(falling).alpha_s(), 0);
  EXPECT_EQ(fit(steep).alpha_s(), 0);
  EXPECT_GT(fit(steep).beta_s, 0);
}

TEST(Link, points_of_one_size_and_points_without_time_are_not_the_end) {
  const std::vector<LinkPoint> one{{1e3, 2.0}, {1e3, 2.0}, {1e3, 0}};
  EXPECT_DOUBLE_EQ(fit(one).seconds(1e3), 2.0);
  EXPECT_EQ(fit({}).seconds(1e6), 0);
}

// What a burst takes by the model: the processor is busy all the time, or it waits for the last message.
double burst_s(double latency, double overhead, int messages) {
  return std::max(2 * messages * overhead, latency + (messages + 1) * overhead);
}

TEST(Link, a_burst_tells_latency_and_overhead_apart) {
  for (const double latency : {0.0, 2e-6, 50e-6})
    for (const double overhead : {0.1e-6, 1e-6, 10e-6})
      for (const int messages : {2, 16, 64}) {
        const LinkModel one{latency + 2 * overhead, 0, 1e-9};
        const LinkModel model = split(one, messages, burst_s(latency, overhead, messages));
        EXPECT_NEAR(model.overhead_s, overhead, 1e-12) << latency << " " << messages;
        EXPECT_NEAR(model.latency_s, latency, 1e-12);
        EXPECT_EQ(model.beta_s, one.beta_s);
        EXPECT_NEAR(model.burst_s(messages), burst_s(latency, overhead, messages), 1e-12);
      }
}

TEST(Link, a_burst_that_makes_no_sense_leaves_no_negative_number) {
  const LinkModel one{10e-6, 0, 1e-9};
  for (const double seconds : {0.0, 1e-6, 9e-6, 1.0}) {
    const LinkModel model = split(one, 16, seconds);
    EXPECT_GE(model.overhead_s, 0) << seconds;
    EXPECT_GE(model.latency_s, 0) << seconds;
    EXPECT_NEAR(model.alpha_s(), 10e-6, 1e-12) << seconds;
  }
  EXPECT_EQ(split(one, 1, 5e-6).overhead_s, 0);
}

TEST(Losses, exact_sums_lose_nothing_but_the_contributions) {
  for (const PlanRow& plan : plans()) {
    const Losses losses = losses_of(plan, {.size = 8, .encodes_own = true});
    EXPECT_DOUBLE_EQ(losses.contributions, 1) << plan.name;
    EXPECT_DOUBLE_EQ(losses.aggregate, 0) << plan.name;
  }
}

TEST(Losses, of_a_plan_are_its_encodings) {
  EXPECT_DOUBLE_EQ(losses_of(plan_of("direct"), {.size = 4}).contributions, 0.75);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("direct"), {.size = 4}).aggregate, 1);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("allgather"), {.size = 2}).contributions, 1);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("allgather"), {.size = 2}).aggregate, 0);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("recursive_doubling"), {.size = 16}).contributions, 1);
  EXPECT_DOUBLE_EQ(losses_of(plan_of("recursive_doubling"), {.size = 16}).aggregate, 3);
}

// Every loss is in the result. One of a sum of k ranks counts as k/P of one of the result.
TEST(Losses, of_plans_that_encode_partial_sums_are_those_that_the_proof_finds) {
  for (const PlanRow& plan : plans())
    for (int size = 2; size <= 33; ++size) {
      const Ranks ranks{0, size};
      symbolic::Terms terms;
      const symbolic::Interpreted out = symbolic::interpret(make_all(plan, ranks), false, terms);
      double contributions = 0, aggregate = 0;
      for (const symbolic::Terms::Id result : out.output[0]) {
        symbolic::Terms::Linear total;
        terms.add(total, result, 1);
        terms.for_each_loss_in(total,
                               [&](int inputs) { (inputs == 1 ? contributions : aggregate) += inputs; });
      }
      const double all = static_cast<double>(size) * static_cast<double>(out.output[0].size());
      const Losses losses = losses_of(plan, ranks);
      EXPECT_NEAR(losses.contributions, contributions / all, 1e-9) << plan.name << ", " << size << " ranks";
      EXPECT_NEAR(losses.aggregate, aggregate / all, 1e-9) << plan.name << ", " << size << " ranks";
    }
}

TEST(Predict, is_the_model_at_the_rates_of_the_codec_and_the_link) {
  const LinkModel link{3e-6, 1e-6, 2e-9};
  const ElementTimes rates{1e-10, 2e-10, 3e-11, 4e-11};
  CallShape call;
  call.ranks.size = 5;
  call.count = 1 << 20;
  call.wire_bytes = 0.127;
  Prices prices;
  prices[Term::latency] = 3e-6;
  prices[Term::overhead] = 1e-6;
  prices[Term::byte] = 2e-9;
  prices[Term::encode] = 1e-10;
  prices[Term::decode] = 2e-10;
  prices[Term::memory] = 4e-11;
  for (const Collective collective : kCollectives) {
    const double inputs = collective == Collective::allgather ? 5 : 1;  // each rank measures its own
    EXPECT_DOUBLE_EQ(predict(collective, call, rates, link),
                     cost_of(collective, call, prices).seconds + 0x1p20 / inputs * 3e-11);
  }
}

TEST(Predict, a_free_codec_at_two_ranks_is_the_link_and_dense_sums_are_too) {
  const LinkModel link{0, 0, 1e-9};
  EXPECT_DOUBLE_EQ(predict_dense(Collective::allreduce, 1e6, 2, link), 1e-3);
  EXPECT_DOUBLE_EQ(predict_dense(Collective::allreduce, 1e6, 4, link), 1.5e-3);
  CallShape call;
  call.count = 1 << 20;
  const double t = predict(Collective::allreduce, call, {}, link);
  EXPECT_NEAR(t, 4.0 * 0x1p20 * 1e-9, 1e-3 * t);
}

}  // namespace
}  // namespace mq::test
