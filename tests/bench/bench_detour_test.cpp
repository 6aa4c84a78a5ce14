// The detours of a rank whose clock is made up.
#include <gtest/gtest.h>

#include "bench/detour.hpp"

namespace mq::bench {
namespace {

constexpr double kStep_s = 1e-7;
double now = 0, pause_every_s = 0, pause_s = 0, next_pause = 0;

// Steps of the same length, and now and then a pause.
double made_up_clock() {
  now += kStep_s;
  if (pause_s > 0 && now >= next_pause) {
    now += pause_s;
    next_pause = now + pause_every_s;
  }
  return now;
}

Detours found(double every_s, double length_s) {
  now = 0;
  pause_every_s = every_s;
  pause_s = length_s;
  next_pause = every_s;
  return find_detours(0.01, made_up_clock);
}

TEST(Detours, a_rank_that_has_its_processor_alone_has_none) {
  const Detours none = found(1, 0);
  EXPECT_EQ(none.share, 0);
  EXPECT_EQ(none.longest_s, 0);
}

TEST(Detours, pauses_are_found_with_their_share_and_length) {
  const Detours tenth = found(9e-4, 1e-4);
  EXPECT_NEAR(tenth.share, 0.1, 0.01);
  EXPECT_NEAR(tenth.longest_s, 1e-4, 2 * kStep_s);
  EXPECT_EQ(found(9e-4, 4 * kStep_s).share, 0) << "a step may be somewhat longer than the shortest";
}

TEST(Detours, of_the_clock_of_this_machine_they_are_a_share) {
  const Detours real = find_detours(0.002);
  EXPECT_GE(real.share, 0);
  EXPECT_LE(real.share, 1);
  EXPECT_LE(real.longest_s, 1);
}

}  // namespace
}  // namespace mq::bench
