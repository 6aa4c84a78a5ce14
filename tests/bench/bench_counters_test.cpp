// mpiq-bench --counters: which events are counted, and what is unknown. The events here are the kernel's,
// which virtual machines have, too. Without PAPI, and where this user may not count, nothing can be counted.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/counters.hpp"
#include "bench/option_table.hpp"
#include "bench/options.hpp"

namespace mq::bench {
namespace {

const std::string kFaults = "perf::PAGE-FAULTS";

// Touches so many fresh pages.
void fault(std::size_t pages) {
  constexpr std::size_t kPage = 4096;
  void* const memory =
      mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  (void)madvise(memory, pages * kPage, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(memory)[i * kPage] = 1;
  munmap(memory, pages * kPage);
}

TEST(Counters, count_in_calls_and_in_steps_apart) {
  Counters counters({kFaults});
  if (!counters.uncounted().empty()) GTEST_SKIP() << counters.uncounted();
  ASSERT_EQ(counters.groups(), 1u);
  fault(1);
  counters.start(0, false);
  fault(100);  // in no call
  for (int i = 0; i < 2; ++i) {
    counters.call_begins();
    fault(50);
    { const WatchedStep step(true); }  // steps are not told now
    counters.call_ends();
  }
  EXPECT_EQ(counters.times(kInCall), 2);
  counters.stop();
  fault(100);
  EXPECT_EQ(counters.count(0, kInCall), 100);
  EXPECT_EQ(counters.count(0, kInEncode), 0);

  counters.start(0, true);
  counters.call_begins();
  fault(100);
  for (const bool encodes : {true, false, true}) {
    const WatchedStep step(encodes);
    fault(encodes ? 7 : 30);
  }
  counters.call_ends();
  EXPECT_EQ(counters.times(kInEncode), 2);
  counters.stop();
  EXPECT_EQ(step_watch, nullptr);
  EXPECT_EQ(counters.count(0, kInCall), 100);
  EXPECT_EQ(counters.count(0, kInEncode), 14);
  EXPECT_EQ(counters.count(0, kInDecode), 30);
  EXPECT_EQ(counters.count(0, kInNothing), 0);
  counters.clear();
  EXPECT_EQ(counters.count(0, kInEncode), 0);
}

TEST(Counters, an_event_that_is_not_there_is_unknown_and_the_others_are_counted) {
  Counters counters({"perf::NO-SUCH-EVENT", kFaults});
  EXPECT_NE(counters.uncounted().find("perf::NO-SUCH-EVENT ("), std::string::npos) << counters.uncounted();
  if (counters.groups() == 0) GTEST_SKIP() << counters.uncounted();
  EXPECT_EQ(counters.uncounted().find(kFaults), std::string::npos);
  counters.start(0, false);
  counters.call_begins();
  fault(5);
  counters.call_ends();
  counters.stop();
  EXPECT_TRUE(std::isnan(counters.count(0, kInCall)));
  EXPECT_TRUE(std::isnan(counters.count(0, kInNothing)));
  EXPECT_EQ(counters.count(1, kInCall), 5);
}

TEST(Counters, are_a_condition_of_the_measurement) {
  const char* words[] = {"mpiq-bench", "allreduce", "--counters", "a::B,PAPI_TOT_INS"};
  EXPECT_NE(config_json(parse_command_line(4, words).options).find(R"("counters":["a::B","PAPI_TOT_INS"])"),
            std::string::npos);
  EXPECT_EQ(config_json(parse_command_line(2, words).options).find("counters"), std::string::npos);
  for (const auto& [other, value] :
       {std::pair{"--overlap", "50"}, {"--arrival", "one:5"}, {"--counters", "X,X"}}) {
    const char* both[] = {"mpiq-bench", "allreduce", "--counters", "X", other, value};
    const CommandLine line = parse_command_line(6, both);
    EXPECT_EQ(line.exit_code, kUsage) << other;
    EXPECT_NE(line.err.find("--counters"), std::string::npos) << line.err;
  }
}

}  // namespace
}  // namespace mq::bench
