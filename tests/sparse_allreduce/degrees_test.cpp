// The model that chooses the degrees of a butterfly: against sums, against what reductions send, and against
// what the paper reports of it.
#include <chrono>
#include <mutex>

#include "tests/sparse_allreduce/kylix_scene.hpp"

namespace mq::test {
namespace {

using sparse::KylixLoad;
using sparse::Network;
using sparse::UnionModel;

TEST(UnionModel, is_the_sum_over_all_indices) {
  for (const double alpha : {0.0, 0.5, 0.9, 1.0, 1.5, 3.0})
    for (const double size : {10.0, 1000.0, 200000.0}) {
      const double entries = size / 20;
      const UnionModel model(size, entries, alpha);
      EXPECT_NEAR(model.of(1), entries, 2e-3 * entries);
      // lambda from the model itself, by the first index: none is more frequent.
      double low = 1e-12, high = 1e12;
      for (int i = 0; i < 200; ++i) {
        const double lambda = std::sqrt(low * high);
        double sum = 0;
        for (double r = 1; r <= size; ++r) sum += -std::expm1(-lambda * std::pow(r, -alpha));
        (sum < entries ? low : high) = lambda;
        if (high / low < 1 + 1e-9 || (size > 1e5 && high / low < 1 + 1e-5)) break;
      }
      for (const int k : {2, 16, 300}) {
        double sum = 0;
        for (double r = 1; r <= size; ++r) sum += -std::expm1(-low * k * std::pow(r, -alpha));
        EXPECT_NEAR(model.of(k), sum, 5e-3 * sum) << alpha << " " << size << " " << k;
      }
    }
}

TEST(UnionModel, of_equally_frequent_indices_is_that_of_independent_draws) {
  const UnionModel model(1e6, 1e4, 0);
  for (const int k : {1, 8, 64, 256}) EXPECT_NEAR(model.of(k), 1e6 * (1 - std::pow(0.99, k)), 1e3);
}

TEST(UnionModel, finds_the_exponent_again) {
  for (const double alpha : {0.0, 0.4, 0.8, 1.0, 1.3}) {
    const UnionModel truth(1e6, 5000, alpha);
    const UnionModel found = UnionModel::fitted(1e6, 5000, 64, truth.of(64));
    EXPECT_NEAR(found.alpha(), alpha, 0.02);
    for (const int k : {4, 16}) EXPECT_NEAR(found.of(k), truth.of(k), 0.01 * truth.of(k));
  }
}

TEST(UnionModel, has_its_own_exp_and_log) {
  for (double x = -50; x < 50; x += 0.37) {
    EXPECT_NEAR(sparse::portable::exp(x), std::exp(x), 1e-13 * std::exp(x));
    EXPECT_NEAR(sparse::portable::log(std::exp(x)), x, 1e-12);
  }
}

TEST(ListStats, estimates_unions_and_means) {
  for (const Spread spread : kSpreads) {
    const int ranks = 16;
    const sparse::ListStatsLayout shape(ranks, true);
    std::vector<std::vector<std::uint64_t>> blocks;
    std::map<std::uint64_t, int> all;
    for (int r = 0; r < ranks; ++r) {
      const auto list = sparse_indices({spread, 1u << 20, 5000, r, ranks, 3});
      for (const std::uint64_t index : list) all[index]++;
      blocks.emplace_back(shape.words());
      shape.write(list, list, blocks.back());
    }
    std::vector<sparse::ListStats> out(static_cast<std::size_t>(ranks)), in = out;
    for (std::size_t r = 0; r < out.size(); ++r) ASSERT_TRUE(shape.read(blocks[r], out[r], in[r]));
    EXPECT_NEAR(union_size(out), static_cast<double>(all.size()), 0.3 * static_cast<double>(all.size()))
        << name(spread);
  }
}

// Mean over the ranks of what a reduction by routes sends.
double measured_bytes(const KylixScene& scene) {
  std::mutex mutex;
  double sum = 0;
  Loopback net(scene.ranks);
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    ASSERT_TRUE(player.configure().ok());
    ASSERT_TRUE(player.reduce().ok());
    const std::scoped_lock lock(mutex);
    sum += static_cast<double>(player.reduction.traffic().sent_bytes);
  });
  return sum / scene.ranks;
}

// Lists of the model itself: index r with the probability 1 - exp(-lambda r^-alpha).
void fill_power_law(KylixScene& scene, double size, double entries, double alpha) {
  double low = 1e-9, high = 1e15;
  for (int i = 0; i < 60; ++i) {
    const double lambda = std::sqrt(low * high);
    double sum = 0;
    for (double r = 1; r <= size; ++r) sum += -std::expm1(-lambda * std::pow(r, -alpha));
    (sum < entries ? low : high) = lambda;
  }
  for (int rank = 0; rank < scene.ranks; ++rank) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
    std::uniform_real_distribution<double> uniform(0, 1);
    Share share;
    for (std::int64_t r = 1; r <= static_cast<std::int64_t>(size); ++r)
      if (uniform(random) < -std::expm1(-low * std::pow(static_cast<double>(r), -alpha)))
        share.out.push_back(r);
    share.in = share.out;
    share.values.assign(share.out.size(), 1);
    scene.shares.push_back(std::move(share));
  }
}

TEST(Degrees, predicts_the_bytes_that_are_sent_to_5_percent) {
  for (const double alpha : {0.0, 0.7, 1.1})
    for (const std::vector<int>& degrees : {std::vector{16}, {4, 4}, {8, 2}, {2, 2, 2, 2}}) {
      KylixScene scene{.ranks = 16, .degrees = degrees};
      fill_power_law(scene, 20000, 1500, alpha);
      const UnionModel model(20000, 1500, alpha);
      const double predicted = predict_kylix(Network{}, 16, KylixLoad{model, model, 4, 0}, degrees).bytes;
      EXPECT_NEAR(measured_bytes(scene), predicted, 0.05 * predicted) << alpha << " " << text(degrees);
    }
}

TEST(Degrees, fitted_to_the_lists_predicts_the_bytes_to_15_percent) {
  for (const double alpha : {0.0, 0.7, 1.1}) {
    KylixScene scene{.ranks = 16, .degrees = {4, 4}};
    fill_power_law(scene, 20000, 1500, alpha);
    const sparse::ListStatsLayout shape(16, true);
    std::vector<std::vector<std::uint64_t>> blocks;
    sparse::ListStatsByRank stats;
    stats.out.resize(16);
    stats.in.resize(16);
    for (std::size_t r = 0; r < 16; ++r) {
      const std::vector<std::uint64_t> list(scene.shares[r].out.begin(), scene.shares[r].out.end());
      blocks.emplace_back(shape.words());
      shape.write(list, list, blocks.back());
    }
    for (std::size_t r = 0; r < 16; ++r) ASSERT_TRUE(shape.read(blocks[r], stats.out[r], stats.in[r]));
    const double predicted =
        predict_kylix(Network{}, 16, load_of(stats, scene.entry(), false), scene.degrees).bytes;
    EXPECT_NEAR(measured_bytes(scene), predicted, 0.15 * predicted) << alpha;
  }
}

TEST(Degrees, fall_with_depth_for_power_laws) {
  // The paper's 64 nodes of 10 Gbit/s, whose messages should have some MB (section VII).
  const Network ec2{.latency_s = 2e-3, .further_s = 2e-3, .s_per_byte = 1 / 1.0e9, .s_per_entry = 2e-9};
  const UnionModel twitter(6e7, 6e6, 1.0);
  const auto plan = plan_kylix(ec2, 64, KylixLoad{twitter, twitter, 4, 0});
  EXPECT_GE(plan.degrees.size(), 2u) << text(plan.degrees);
  for (std::size_t i = 1; i < plan.degrees.size(); ++i)
    EXPECT_LE(plan.degrees[i], plan.degrees[i - 1]) << text(plan.degrees);
  EXPECT_GT(plan.degrees.front(), plan.degrees.back()) << text(plan.degrees);
}

TEST(Degrees, are_those_of_direct_exchange_where_messages_are_long_enough) {
  const UnionModel large(1e9, 1e8, 0.5), small(1e9, 50, 0.5);
  Network network;
  network.further_s = network.latency_s;
  EXPECT_EQ(plan_kylix(network, 64, KylixLoad{large, large, 4, 0}).degrees, std::vector{64});
  EXPECT_GE(plan_kylix(network, 64, KylixLoad{small, small, 4, 0}).degrees.size(), 3u);
}

TEST(Degrees, are_fewer_where_latencies_of_a_layer_overlap) {
  const UnionModel small(1e9, 1000, 0.5);
  const KylixLoad load{small, small, 4, 0};
  EXPECT_EQ(plan_kylix({.latency_s = 22e-6, .further_s = 2e-6}, 64, load).degrees.size(), 2u);
  EXPECT_EQ(plan_kylix({.latency_s = 22e-6, .further_s = 22e-6}, 64, load).degrees.size(), 6u);
  EXPECT_EQ(plan_kylix({.latency_s = 22e-6, .further_s = 0.01e-6}, 64, load).degrees.size(), 1u);
}

TEST(Degrees, are_the_cheapest_of_all) {
  for (const int ranks : {2, 3, 7, 12, 16, 24, 30})
    for (const double entries : {10.0, 1000.0, 1e5}) {
      const UnionModel model(1e6, entries, 0.9);
      const KylixLoad load{model, model, 4, 0};
      const double planned = plan_kylix(Network{}, ranks, load).seconds;
      double least = HUGE_VAL;
      for (const auto& degrees : degree_vectors(ranks))
        least = std::min(least, predict_kylix(Network{}, ranks, load, degrees).seconds);
      EXPECT_NEAR(planned, least, 1e-9 * least);
    }
}

TEST(Degrees, are_chosen_in_a_moment_and_usable) {
  for (const int ranks : {1, 2, 5, 97, 1000, 4093, 4096}) {
    const auto start = std::chrono::steady_clock::now();
    const UnionModel out = UnionModel::fitted(1e9, 1e5, ranks, 1e5 * std::pow(ranks, 0.6));
    const auto plan = plan_kylix(Network{}, ranks, KylixLoad{out, out, 4, 0});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(sparse::check_degrees(plan.degrees, ranks).ok()) << text(plan.degrees);
    RecordProperty("ms_" + std::to_string(ranks), std::to_string(took.count() * 1e3));
#ifdef NDEBUG
    EXPECT_LT(took.count(), 0.03);  // 10 ms on a machine of one's own
#endif
  }
}

TEST(Degrees, are_explained) {
  sparse::KylixQuestion question{.ranks = 64, .size = 1e7, .entries = 1e5, .alpha = 1.0};
  const auto chosen = explain_kylix(question, Network{});
  ASSERT_GE(chosen.size(), 6u);
  EXPECT_NE(chosen[1].find("the cheapest"), std::string::npos);
  EXPECT_NE(chosen.back().find("direct exchange (64)"), std::string::npos);
  question.degrees = {8, 4, 2};
  EXPECT_NE(explain_kylix(question, Network{})[1].find("8x4x2, as asked"), std::string::npos);
  question.degrees = {8, 2};
  EXPECT_NE(explain_kylix(question, Network{})[0].find("more than half"), std::string::npos);
}

}  // namespace
}  // namespace mq::test
