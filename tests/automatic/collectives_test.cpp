// The promises of `auto` for the collectives other than allreduce (chooser_test.cpp has them all for that
// one): what may be chosen, never much slower than MPI, soon nearly as fast as the best method, never less
// exact than asked. And whose times count where ranks leave a call at different times.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "bench/research/automatic/world.hpp"
#include "tests/sanitized.hpp"

namespace mq {
namespace {

constexpr Automatic kPercent{Automatic::Kind::relative, 0.02}, kLosslessOnly{Automatic::Kind::relative, 0},
    kAbsolute{Automatic::Kind::absolute, 1e-3}, kFeedback{Automatic::Kind::feedback, 4};
constexpr Collective kOthers[]{Collective::reduce_scatter, Collective::allgather, Collective::bcast,
                               Collective::reduce};

CallClass class_of(Collective collective, int ranks, std::size_t bytes, const Automatic& limit) {
  CallClass calls{bytes, kernels::Element::f32, ranks, limit};
  calls.collective = collective;
  return calls;
}

template <class Check>
void over_worlds(bool agrees_anyway, const Check& check, std::uint64_t seed = 5) {
  for (const Collective collective : kOthers)
    for (const Network& network : kNetworks)
      for (const int ranks : test::kSanitized ? std::vector{2, 16} : std::vector{2, 3, 16, 128, 1024})
        for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{64} << 20})
          for (const Automatic& limit : {kPercent, kLosslessOnly, kAbsolute}) {
            World world(class_of(collective, ranks, bytes, limit), network, seed, agrees_anyway);
            SCOPED_TRACE(std::string(name(collective)) + ", " + network.name + ", " + std::to_string(ranks) +
                         " ranks, " + std::to_string(bytes >> 10) + " KiB, limit " +
                         std::to_string(limit.value));
            check(world);
          }
}

TEST(AutoCollectives, no_200_calls_take_two_percent_longer_than_those_of_mpi) {
  const auto check = [](World& world) {
    world.noise = 0.02;
    std::deque<double> last;
    double sum = 0;
    for (int i = 0; i < 600; ++i) {
      last.push_back(world.call().seconds);
      sum += last.back();
      if (last.size() > 200) {
        sum -= last.front();
        last.pop_front();
      }
      if (last.size() < 200) continue;
      ASSERT_LE(sum, 1.02 * 200 * world.call_s(0)) << "call " << i;
    }
  };
  for (const bool agrees_anyway : {false, true})
    for (const std::uint64_t seed : {1, 5}) over_worlds(agrees_anyway, check, seed);
}

TEST(AutoCollectives, after_50_calls_it_is_within_five_percent_of_the_best_in_hindsight) {
  int late = 0, all = 0, compressed = 0;
  over_worlds(false, [&](World& world) {
    for (int i = 0; i < 50; ++i) world.call();
    double sum = 0;
    for (int i = 0; i < 300; ++i) sum += world.call().seconds;
    late += sum / 300 > 1.05 * world.true_s(world.best());
    compressed += world.chooser.favourite() != 0;
    ++all;
  });
  EXPECT_LE(late, all / 50 + test::kSanitized) << "of " << all;
  EXPECT_GE(compressed, test::kSanitized ? 0 : all / 5) << "of " << all;
}

TEST(AutoCollectives, no_result_is_less_exact_than_asked_whatever_samples_hide) {
  for (const double hidden : {1.0, 10.0})
    over_worlds(false, [&](World& world) {
      if (world.calls().limit != kPercent) return;
      world.hidden_error = hidden;
      int over = 0;
      for (int i = 0; i < 400; ++i) over += world.call().result_error > world.calls().limit.value;
      EXPECT_LE(over, 3 * (hidden > 1) * 8) << "a method's results before one of them is judged";
    });
}

// None has a plan to choose, and the candidates are methods that the collective takes.
TEST(AutoCollectives, candidates_serve_the_collective) {
  for (const Collective collective : kOthers)
    for (const int ranks : {2, 3, 64})
      for (const Automatic& limit : {kPercent, kLosslessOnly, kAbsolute, kFeedback}) {
        if (limit == kFeedback && !adds(collective)) continue;
        const CallClass calls = class_of(collective, ranks, 1 << 20, limit);
        const std::vector<AutoCandidate> candidates = candidates_of(calls);
        ASSERT_GT(candidates.size(), 1U);
        for (std::size_t i = 1; i < candidates.size(); ++i) {
          EXPECT_EQ(candidates[i].method.plan, nullptr);
          EXPECT_EQ(unfit_for(collective, candidates[i].method), "");
          EXPECT_GE(candidates[i].losses, 1);
          EXPECT_GT(predicted_s(calls, candidates[i], kNetworks[0].prices()), 0);
        }
      }
}

// What is gathered was encoded by one rank, so one rank may use the whole limit.
TEST(AutoCollectives, the_promise_of_bound_is_no_stricter_than_the_limit) {
  for (const Collective collective : kCollectives)
    for (const int ranks : {2, 8, 1000}) {
      const std::vector<AutoCandidate> candidates =
          candidates_of(class_of(collective, ranks, 1 << 20, kAbsolute));
      const auto bound = std::find_if(candidates.begin() + 1, candidates.end(),
                                      [](const AutoCandidate& c) { return c.method.codec->name == "bound"; });
      ASSERT_NE(bound, candidates.end());
      const double one = bound->method.codec->absolute_bound(bound->method.params, ranks),
                   result = adds(collective) ? ranks * one : one;
      EXPECT_LE(result, kAbsolute.value) << name(collective) << " of " << ranks;
      EXPECT_GT(result, 0.24 * kAbsolute.value) << name(collective) << " of " << ranks;  // a power of two
    }
}

// The rank that comes last waits for nobody. Where there is a root, some ranks leave at once.
TEST(AutoCollectives, the_slowest_rank_counts_where_there_is_a_root) {
  for (const Collective collective : kCollectives) {
    const TimedRank timed = timed_rank(collective, false);
    Heard all;
    for (const double seconds : {3e-3, 1e-3, 2e-3}) {
      OwnTimes times(timed);
      times.add_call(9 * seconds, seconds);
      times.add_dense(2 * seconds);
      times.add_dense(3 * seconds);
      times.add_agreement(seconds);
      Heard own;
      times.take(own);
      all = greatest(all, own);
    }
    const double counts = has_root(collective) ? 3e-3 : 1e-3;
    // From the end of the agreement on, where there is a root.
    EXPECT_FLOAT_EQ(static_cast<float>(seconds_of(all.call, timed)), has_root(collective) ? 3e-3F : 9e-3F);
    EXPECT_FLOAT_EQ(static_cast<float>(seconds_of(all.dense, timed)), static_cast<float>(2 * counts));
    EXPECT_EQ(OwnTimes(timed).counts(false, 2), !has_root(collective));
    EXPECT_EQ(OwnTimes(timed).counts(true, 1), !has_root(collective));
    EXPECT_TRUE(OwnTimes(timed).counts(true, 2));
    EXPECT_FLOAT_EQ(static_cast<float>(seconds_of(all.agreement_rate, TimedRank::fastest)), 1e-3F);
    OwnTimes none(timed);
    Heard nothing;
    none.take(nothing);
    EXPECT_EQ(seconds_of(nothing.call, timed), 0);
  }
}

// Parts of very different lengths are as good as a root.
TEST(AutoCollectives, the_slowest_rank_counts_where_parts_are_uneven) {
  CallClass calls = class_of(Collective::reduce_scatter, 4, 1 << 20, kPercent);
  EXPECT_EQ(calls.timed(), TimedRank::fastest);
  calls.has_uneven_parts = true;
  EXPECT_EQ(calls.timed(), TimedRank::slowest);
}

// A rank that is late in one of the first calls is not MPI's time.
TEST(AutoCollectives, one_late_call_costs_no_more_than_it_takes) {
  for (const std::uint64_t number : {2, 3, 4, 5})
    for (const bool agrees_anyway : {false, true})
      over_worlds(agrees_anyway, [&](World& world) {
        if (!has_root(world.calls().collective) || world.calls().limit != kPercent) return;
        world.noise = 0.02;
        world.outlier = number;
        world.outlier_s = 9;
        double sum = 0;
        for (int i = 0; i < 200; ++i) {
          const World::Done done = world.call();
          sum += done.seconds - done.disturbed_s;
        }
        EXPECT_LE(sum, 1.02 * 200 * world.call_s(0)) << "call " << number;
      });
}

// A call without an agreement tells nothing where there is a root: so MPI's calls that are due make one.
TEST(AutoCollectives, with_a_root_mpis_own_calls_are_timed_by_agreements) {
  for (const Collective collective : kOthers) {
    World world(class_of(collective, 16, 4 << 20, kPercent), kNetworks[0], 3);
    int agreed = 0, dense = 0;
    for (int i = 0; i < 300; ++i) {
      const Choice choice = world.chooser.favourite_choice();
      const std::uint64_t compressed = world.chooser.totals().compressed;
      world.call();
      if (i < 50 || choice.candidate == 0 || world.chooser.totals().compressed != compressed) continue;
      ++dense;
      agreed += world.last_choice().agrees;
    }
    EXPECT_GT(dense, 0) << name(collective);
    EXPECT_EQ(agreed, has_root(collective) ? dense : 0) << name(collective);
  }
}

}  // namespace
}  // namespace mq
