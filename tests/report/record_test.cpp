// What is recorded of intercepted calls: sums, threads, and the way to another rank.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mpi_quant/base/pack.hpp"
#include "mpi_quant/report/record.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/report/records.hpp"

namespace mq::test {
namespace {

constexpr std::string_view kKind = "record of a test";

TEST(Words, every_reason_and_feedback_has_a_name_of_its_own) {
  std::set<std::string_view> names, sentences;
  for (std::size_t i = 0; i < kReasons; ++i) {
    names.insert(name(static_cast<Reason>(i)));
    sentences.insert(words(static_cast<Reason>(i)));
  }
  EXPECT_EQ(names.size(), kReasons);
  EXPECT_EQ(sentences.size(), kReasons);
  EXPECT_FALSE(names.contains("") || sentences.contains(""));
  std::set<std::string_view> feedback;
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) feedback.insert(name(static_cast<FeedbackOutcome>(i)));
  EXPECT_EQ(feedback.size(), kFeedbackOutcomes);
  EXPECT_FALSE(feedback.contains(""));
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) {
    const auto outcome = static_cast<FeedbackOutcome>(i);
    EXPECT_EQ(words(outcome).empty(), fate(outcome) == Fate::none) << name(outcome);
    EXPECT_EQ(fate(outcome) == Fate::none, outcome == FeedbackOutcome::none) << name(outcome);
  }
}

TEST(Numbers, are_added_field_by_field_and_the_largest_error_stays) {
  Numbers a, b;
  a.calls[at(Reason::rule)] = 2;
  b.calls[at(Reason::rule)] = 3;
  b.calls[at(Reason::small)] = 1;
  b.feedback[at(FeedbackOutcome::hit)] = 4;
  a.seconds = 0.5;
  b.seconds = 0.25;
  a.guard_error_max = 0.1;
  b.guard_error_max = 0.05;
  a.add(b);
  EXPECT_EQ(a.total_calls(), 6u);
  EXPECT_EQ(a.feedback[at(FeedbackOutcome::hit)], 4u);
  EXPECT_EQ(a.seconds, 0.75);
  EXPECT_EQ(a.guard_error_max, 0.1);
}

TEST(Numbers, an_error_that_is_not_a_number_is_the_largest) {
  Numbers one, nan;
  one.guard_error_max = 1;
  nan.guard_error_max = std::numeric_limits<double>::quiet_NaN();
  Numbers first = one, second = nan;
  first.add(nan);
  second.add(one);
  EXPECT_TRUE(std::isnan(first.guard_error_max));
  EXPECT_TRUE(std::isnan(second.guard_error_max));
}

TEST(Numbers, a_lossy_method_is_not_replaced_by_an_exact_one) {
  const auto sum = [](const char* first, const char* second) {
    Numbers a, b;
    a.method = first;
    b.method = second;
    a.add(b);
    return a.method;
  };
  EXPECT_EQ(sum("onebit", "raw"), "onebit");
  EXPECT_EQ(sum("raw", "onebit"), "onebit");
  EXPECT_EQ(sum("onebit", "mpi"), "onebit");
  EXPECT_EQ(sum("onebit", ""), "onebit");
  EXPECT_EQ(sum("onebit", "bf16"), "bf16");
  EXPECT_EQ(sum("", "mpi"), "mpi");
}

TEST(Pack, brings_every_record_back_to_the_bit) {
  Random random(seed());
  for (int i = 0; i < 500; ++i) {
    const Record record = random_record(random, any_numbers);
    const std::string bytes = pack(kKind, record);
    Record back;
    ASSERT_TRUE(unpack(kKind, bytes, back).ok());
    EXPECT_EQ(back, record);
    EXPECT_EQ(pack(kKind, back), bytes);
  }
}

TEST(Pack, brings_back_numbers_that_are_not_finite) {
  for (const double value :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), -0.0,
        std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(),
        std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()}) {
    Record record, back;
    record.sites["s"].seconds = value;
    ASSERT_TRUE(unpack(kKind, pack(kKind, record), back).ok());
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back.sites.at("s").seconds), std::bit_cast<std::uint64_t>(value));
  }
}

// Each is refused with the same words, and what was there stays.
void expect_refused(std::string_view bytes, const std::string& what) {
  Record untouched;
  untouched.sites["here"];
  EXPECT_EQ(unpack(kKind, bytes, untouched).text(), "its bytes are no record of a test") << what;
  EXPECT_TRUE(untouched.classes.empty() && untouched.sites.size() == 1 && untouched.sites.contains("here"));
}

TEST(Unpack, refuses_every_truncation_and_every_changed_bit) {
  Random random(seed());
  for (int i = 0; i < 5; ++i) {
    const std::string bytes = pack(kKind, random_record(random, any_numbers));
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      expect_refused(std::string_view(bytes).substr(0, at), "cut off at " + std::to_string(at));
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
      expect_refused(changed, "changed at " + std::to_string(at));
    }
    expect_refused(bytes + '\0', "longer");
    expect_refused(bytes + bytes, "twice");
  }
}

TEST(Unpack, refuses_another_kind_and_structs_that_do_not_fit) {
  const Record record{{{{"c", 2, "MPI_FLOAT", "MPI_SUM", 20}, {}}}, {{"s", {}}}};
  expect_refused(pack("record of another build", record), "another kind");
  expect_refused(pack(kKind, record.classes), "the end is missing");
  expect_refused(pack(kKind, std::uint64_t{1} << 60), "a map that is longer than memory");
  expect_refused(pack(kKind, std::vector<std::uint64_t>{1, std::uint64_t{1} << 60}), "a text as long");
  Record back;
  EXPECT_TRUE(unpack(kKind, pack(kKind, record), back).ok());
}

// A map as a vector of pairs, in any order.
struct Pairs {
  std::vector<std::string> keys;
  static void each_field(auto& pairs, auto& f) {
    std::size_t n = pairs.keys.size();
    f(n);
    for (auto& key : pairs.keys) {
      f(key);
      f(key);
    }
  }
};
TEST(Unpack, takes_the_keys_of_a_map_in_their_order_and_once) {
  std::map<std::string, std::string> map;
  EXPECT_TRUE(unpack(kKind, pack(kKind, Pairs{{"a", "b"}}), map).ok());
  EXPECT_EQ(map, (std::map<std::string, std::string>{{"a", "a"}, {"b", "b"}}));
  EXPECT_FALSE(unpack(kKind, pack(kKind, Pairs{{"b", "a"}}), map).ok());
  EXPECT_FALSE(unpack(kKind, pack(kKind, Pairs{{"a", "a"}}), map).ok());
}

TEST(Unpack, never_reads_beyond_bytes_that_have_a_checksum) {
  Random random(seed());
  for (int i = 0; i < 20000; ++i) {  // as a sender with another struct: the sum is right, and the rest is not
    Packer packer;
    packer(random_record(random, any_numbers));
    std::string bytes = packer.bytes();
    for (std::size_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
      const std::size_t where = random() % bytes.size();
      switch (random() % 3) {
        case 0: bytes[where] = static_cast<char>(random()); break;
        case 1: bytes.erase(where, 1 + random() % 9); break;
        default: bytes.insert(where, bytes.substr(random() % bytes.size(), random() % 99));
      }
    }
    const std::string damaged = bytes;
    Record record;
    Unpacker fields(damaged);
    fields(record);
    if (!fields.at_end()) continue;
    Packer again;
    again(record);
    EXPECT_EQ(again.bytes(), damaged);
  }
}

TEST(ThreadRecord, identifies_traits_once_and_keeps_its_numbers_where_they_are) {
  std::thread([] {
    ThreadRecord& record = *ThreadRecord::mine();
    EXPECT_EQ(&record, ThreadRecord::mine());
    int identified = 0;
    const auto numbers = [&](std::uintptr_t comm, int log2_bytes) -> Numbers& {
      return record.of({comm, 1, 2, log2_bytes}, [&] {
        ++identified;
        return ClassId{"once", 4, "MPI_FLOAT", "MPI_SUM", log2_bytes};
      });
    };
    Numbers& first = numbers(1, 20);
    EXPECT_EQ(&numbers(1, 20), &first);
    EXPECT_EQ(identified, 1);
    EXPECT_EQ(&numbers(2, 20), &first) << "two handles, one class";
    EXPECT_EQ(identified, 2);
    EXPECT_NE(&numbers(1, 21), &first);
    for (std::uintptr_t comm = 100; comm < 1100; ++comm) EXPECT_EQ(&numbers(comm, 20), &first);
    const int before = identified;
    EXPECT_EQ(&numbers(1, 20), &first);
    EXPECT_EQ(identified, before + 1) << "dropped, and found again";
    EXPECT_EQ(record.record().classes.size(), 2u);
  }).join();
}

TEST(WholeRecord, is_the_sum_of_all_threads_also_of_those_that_have_ended) {
  constexpr int kThreads = 8;
  constexpr std::uint64_t kCalls = 2000;
  const ClassId shared{"shared", 2, "MPI_DOUBLE", "MPI_SUM", 10};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kCalls; ++i) {
        ThreadRecord& record = *ThreadRecord::mine();
        ++record.of({7, 8, 9, 10}, [&] { return shared; }).calls[at(Reason::small)];
        const ClassId own{"thread " + std::to_string(t), 2, "MPI_FLOAT", "MPI_SUM", 20};
        Numbers& numbers = record.of({static_cast<std::uintptr_t>(t), 8, 9, 20}, [&] { return own; });
        ++numbers.calls[at(Reason::compressed)];
        numbers.seconds += 0.5;
        ++record.site("site").calls[at(Reason::compressed)];
      }
    });
  for (std::thread& thread : threads) thread.join();
  const Record whole = whole_record();
  EXPECT_EQ(whole.classes.at(shared).total_calls(), kThreads * kCalls);
  EXPECT_EQ(whole.sites.at("site").calls[at(Reason::compressed)], kThreads * kCalls);
  for (int t = 0; t < kThreads; ++t) {
    const ClassId own{"thread " + std::to_string(t), 2, "MPI_FLOAT", "MPI_SUM", 20};
    EXPECT_EQ(whole.classes.at(own).total_calls(), kCalls);
    EXPECT_EQ(whole.classes.at(own).seconds, 0.5 * kCalls);
  }
}

}  // namespace
}  // namespace mq::test
