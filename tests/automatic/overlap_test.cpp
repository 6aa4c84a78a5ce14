// Whether calls that are in flight together are compressed: ranks that start the same calls, complete them in
// orders of their own, and hide more or less of them behind their own work.

#include "mpi_quant/automatic/overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

namespace mq {
namespace {

// Ranks with clocks of their own. In each step of the program all start the same calls, work, and complete
// the calls in an order that is another one on each rank.
class Program {
 public:
  Program(int ranks, int in_flight, unsigned seed)
      : ranks_(static_cast<std::size_t>(ranks)), in_flight_(in_flight), random_(seed) {}

  double codec_s = 1e-3, mpi_s = 3e-3;  // what a call needs
  double touch_s = 2e-6;                // in the library, whatever is hidden: to start and to complete it
  double codec_work_s = 0;              // of codec_s: work of the processor, which no program can hide
  Method method = *parse_method("int8/direct");
  bool is_hidden = false;  // all but that is done while the program works

  // One step. Returns the seconds that rank 0 spent in the library.
  double step() {
    std::vector<bool> by_codec;
    for (int i = 0; i < in_flight_; ++i) by_codec.push_back(agree());
    double of_rank_0 = 0;
    for (Rank& rank : ranks_) {
      const double spent = play(rank, by_codec);
      if (&rank == &ranks_[0]) of_rank_0 = spent;
    }
    for (const bool by : by_codec) compressed.push_back(by);
    return of_rank_0;
  }
  // The share of the last calls that was compressed.
  double share(std::size_t calls) const {
    const auto begin = compressed.end() - static_cast<std::ptrdiff_t>(calls);
    return static_cast<double>(std::count(begin, compressed.end(), true)) / static_cast<double>(calls);
  }
  std::vector<bool> compressed;

 private:
  struct Rank {
    SharedTime shared;
    Overlap overlap;
    double now = 0;
  };
  bool agree() {
    Heard heard;
    for (const Rank& rank : ranks_) {
      Heard mine;
      rank.overlap.bring(method, TimedRank::fastest, mine);
      heard = greatest(heard, mine);
    }
    return Overlap::runs(heard, TimedRank::fastest, number_++);
  }
  double play(Rank& rank, const std::vector<bool>& by_codec) {
    std::uniform_real_distribution<double> noise(0.9, 1.1);
    std::vector<double> started(by_codec.size()), left(by_codec.size());
    double spent = 0;
    const auto spend = [&](double seconds) {
      rank.now += seconds;
      spent += seconds;
    };
    rank.shared.enter(rank.now);
    for (std::size_t i = 0; i < started.size(); ++i) {
      const double needs = (by_codec[i] ? codec_s : mpi_s) * noise(random_),
                   work = by_codec[i] ? codec_work_s : 0;
      left[i] = is_hidden ? work : needs;
      started[i] = rank.shared.start(rank.now);
      spend(touch_s);
    }
    rank.shared.leave(rank.now);
    rank.now += 1;  // the program works
    std::vector<std::size_t> order(left.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    // The calls in flight get equal shares of the link, so that they end in the order of what they need.
    std::vector<std::size_t> ends = order;
    std::stable_sort(ends.begin(), ends.end(),
                     [&](std::size_t a, std::size_t b) { return left[a] < left[b]; });
    std::vector<bool> is_over(left.size());
    std::size_t next = 0;
    double done = 0;  // of each call that is still in flight
    for (const std::size_t wanted : order) {
      rank.shared.enter(rank.now);
      spend(touch_s);
      while (!is_over[wanted]) {
        const std::size_t ending = ends[next++];
        spend((left[ending] - done) * static_cast<double>(ends.size() - next + 1));
        done = left[ending];
        is_over[ending] = true;
        rank.overlap.took(method, by_codec[ending], rank.shared.finish(rank.now, started[ending]));
      }
      rank.shared.leave(rank.now);
    }
    return spent;
  }

  std::vector<Rank> ranks_;
  int in_flight_;
  std::mt19937 random_;
  std::uint32_t number_ = 0;
};

template <class Check>
void over_programs(const Check& check) {
  for (const int ranks : {2, 5})
    for (const int in_flight : {1, 2, 8, 32})
      for (unsigned seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(in_flight) + " in flight, seed " +
                     std::to_string(seed));
        Program program(ranks, in_flight, seed);
        check(program);
      }
}

void run(Program& program, std::size_t calls) {
  for (const std::size_t until = program.compressed.size() + calls; program.compressed.size() < until;)
    program.step();
}

TEST(Overlap, the_first_calls_are_exact) {
  Heard none;
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_FALSE(Overlap::runs(none, TimedRank::fastest, i));
  Overlap overlap;
  const Method method = *parse_method("int8/direct");
  overlap.took(method, false, 1);
  overlap.took(method, false, 1);
  overlap.bring(method, TimedRank::fastest, none);
  EXPECT_EQ(none.dense, 0);  // two times are not believed
}

TEST(Overlap, calls_that_the_program_waits_for_are_compressed_if_that_is_faster) {
  over_programs([](Program& program) {
    run(program, 160);
    run(program, 400);
    EXPECT_GE(program.share(400), 0.85);
  });
}

TEST(Overlap, calls_that_the_program_hides_are_left_alone) {
  over_programs([](Program& program) {
    program.is_hidden = true;
    program.codec_work_s = 0.4e-3;
    run(program, 160);
    run(program, 1000);
    EXPECT_LE(program.share(1000), 0.02);
  });
}

// Hidden, and nothing is to be gained or lost: as good as always MPI's.
TEST(Overlap, a_codec_that_is_no_faster_is_left_alone) {
  over_programs([](Program& program) {
    program.codec_s = program.mpi_s;
    run(program, 160);
    run(program, 1000);
    EXPECT_LE(program.share(1000), 0.35);  // it is a matter of noise, and costs nothing
  });
}

// In the long run.
TEST(Overlap, looking_at_a_slower_codec_costs_less_than_two_hundredths) {
  over_programs([](Program& program) {
    for (const double slower : {1.2, 1.5, 2.5}) {
      program.codec_s = slower * program.mpi_s;
      run(program, 400);
      run(program, 4000);
      EXPECT_LE(program.share(4000) * (slower - 1), 0.02) << slower;
    }
  });
}

TEST(Overlap, a_program_that_begins_to_wait_or_to_hide_is_noticed) {
  over_programs([](Program& program) {
    program.codec_work_s = 0.4e-3;
    program.is_hidden = true;
    run(program, 400);
    program.is_hidden = false;
    run(program, 64);
    run(program, 64);
    EXPECT_GE(program.share(64), 0.75);
    program.is_hidden = true;
    run(program, 320);
    run(program, 200);
    EXPECT_LE(program.share(200), 0.1);
  });
}

// What the old favourite cost says nothing of the new one.
TEST(Overlap, a_far_better_favourite_is_found_within_50_calls) {
  over_programs([](Program& program) {
    program.codec_s = 10 * program.mpi_s;
    run(program, 400);
    program.method = *parse_method("bf16/direct");
    program.codec_s = program.mpi_s / 3;
    run(program, 50);
    run(program, 64);
    EXPECT_GE(program.share(64), 0.85);
  });
}

// Persistent calls keep their method when the favourite becomes another one. Each kind goes by its own costs.
TEST(Overlap, calls_by_an_old_method_do_not_disturb_those_by_the_favourite) {
  over_programs([](Program& program) {
    const Method old = program.method, favourite = *parse_method("bf16/direct");
    const double slow_s = 10 * program.mpi_s, fast_s = program.mpi_s / 3;
    int good = 0, bad = 0, calls = 0;
    for (int i = 0; i < 600; ++i) {
      const bool is_old = i % 2 == 0;
      program.method = is_old ? old : favourite;
      program.codec_s = is_old ? slow_s : fast_s;
      const std::size_t before = program.compressed.size();
      program.step();
      if (i < 200) continue;
      const auto compressed = static_cast<int>(std::count(
          program.compressed.begin() + static_cast<std::ptrdiff_t>(before), program.compressed.end(), true));
      (is_old ? bad : good) += compressed;
      if (is_old) calls += static_cast<int>(program.compressed.size() - before);
    }
    EXPECT_GE(good, 0.85 * calls);
    EXPECT_LE(bad, 0.05 * calls);
  });
}

// A place is free for each new method.
TEST(Overlap, any_number_of_methods_may_follow_each_other) {
  Overlap overlap;
  for (int i = 1; i <= 40; ++i) {
    const Method method = *parse_method("topk(k=" + std::to_string(i * 0.01) + ")/direct");
    Heard heard;
    overlap.bring(method, TimedRank::fastest, heard);
    EXPECT_EQ(heard.call, 0) << i;
    for (int call = 0; call < 5; ++call) overlap.took(method, true, i);
    overlap.bring(method, TimedRank::fastest, heard);
    EXPECT_FLOAT_EQ(heard.call, 1.0F / static_cast<float>(i));
  }
}

// Nothing but the agreement of the call decides: it does not matter in which order ranks are heard, and a
// rank that knows nothing yet follows the others.
TEST(Overlap, what_is_agreed_does_not_depend_on_the_order_of_the_ranks) {
  const Method method = *parse_method("int8/direct");
  std::vector<Heard> said;
  for (int rank = 0; rank < 6; ++rank) {
    Overlap overlap;
    for (int i = 0; i < 5 * rank; ++i) overlap.took(method, i % 2 == 0, 1e-3 * (1 + (7 * i + rank) % 5));
    said.emplace_back();
    overlap.bring(method, TimedRank::fastest, said.back());
  }
  EXPECT_EQ(said[0].call, 0);
  std::mt19937 random(1);
  std::vector<float> rates;
  for (int i = 0; i < 20; ++i) {
    std::shuffle(said.begin(), said.end(), random);
    Heard all;
    for (const Heard& one : said) all = greatest(all, one);
    rates.push_back(all.call);
    rates.push_back(all.dense);
    EXPECT_EQ(rates[rates.size() - 2], rates[0]);
    EXPECT_EQ(rates.back(), rates[1]);
  }
}

// A leaf of a broadcast may pay for nothing; the calls cost those that wait.
TEST(Overlap, with_a_root_the_rank_counts_that_paid_most) {
  const Method method = *parse_method("int8");
  for (const TimedRank timed : {TimedRank::fastest, TimedRank::slowest}) {
    Heard all;
    for (const double paid_s : {0.0, 1e-3}) {
      Overlap overlap;
      for (int i = 0; i < 8; ++i) {
        overlap.took(method, true, paid_s);
        overlap.took(method, false, 2 * paid_s);
      }
      Heard own;
      overlap.bring(method, timed, own);
      all = greatest(all, own);
    }
    int runs = 0;
    for (std::uint32_t call = 0; call < 1000; ++call) runs += Overlap::runs(all, timed, call);
    EXPECT_EQ(runs > 900, timed == TimedRank::slowest) << runs;
  }
}

// A call that costs nothing has a rate all the same, and it is finite: it is a field of a message.
TEST(Overlap, rates_are_finite) {
  const Method method = *parse_method("int8/direct");
  Overlap overlap;
  for (int i = 0; i < 9; ++i) overlap.took(method, true, 0);
  Heard heard;
  overlap.bring(method, TimedRank::fastest, heard);
  EXPECT_TRUE(std::isfinite(heard.call));
  EXPECT_GT(heard.call, 0);
  for (const float rate : {1e-38F, 1.0F, 3e38F})
    for (const float other : {1e-38F, 1.0F, 3e38F}) {
      heard.call = rate;
      heard.dense = other;
      (void)Overlap::runs(heard, TimedRank::fastest, 7);
    }
}

// Whatever threads do, the shares of all calls together are the seconds in which a thread was in the library
// and a call in flight.
TEST(SharedTime, the_shares_are_the_time_in_the_library) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    SharedTime shared;
    std::deque<double> started;
    double now = 5, wanted = 0, got = 0;
    int inside = 0;
    for (int i = 0; i < 300; ++i) {
      const double later = static_cast<double>(random() % 1000) * 1e-3;
      now += later;
      if (inside > 0 && !started.empty()) wanted += later;
      switch (random() % 4) {
        case 0: shared.enter(now), ++inside; break;
        case 1:
          if (inside > 0) shared.leave(now), --inside;
          break;
        case 2: started.push_back(shared.start(now)); break;
        default:
          if (started.empty()) break;
          std::swap(started[random() % started.size()], started.back());
          got += shared.finish(now, started.back());
          started.pop_back();
      }
    }
    while (!started.empty()) {
      got += shared.finish(now, started.back());
      started.pop_back();
    }
    EXPECT_NEAR(got, wanted, 1e-9 * (1 + wanted));
  }
}

}  // namespace
}  // namespace mq
