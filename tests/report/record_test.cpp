// What is recorded of intercepted calls: sums, threads, and the way through a text.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mpi_quant/report/record.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/report/records.hpp"

namespace mq::test {
namespace {

// The texts tell records apart, NaN or not.
Record round_trip(const Record& record) {
  Record back;
  EXPECT_TRUE(parse(to_text(record), back)) << to_text(record);
  return back;
}

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

TEST(Text, brings_every_record_back_to_the_bit) {
  Random random(seed());
  for (int i = 0; i < 500; ++i) {
    const Record record = random_record(random, any_numbers);
    const Record back = round_trip(record);
    EXPECT_EQ(to_text(back), to_text(record));
    ASSERT_EQ(back.classes.size(), record.classes.size());
    ASSERT_EQ(back.sites.size(), record.sites.size());
    for (const auto& [id, numbers] : record.classes) {
      ASSERT_TRUE(back.classes.contains(id));
      const Numbers& got = back.classes.at(id);
      EXPECT_EQ(got.calls, numbers.calls);
      EXPECT_EQ(got.feedback, numbers.feedback);
      EXPECT_EQ(got.wire_bytes, numbers.wire_bytes);
      EXPECT_EQ(got.overflows, numbers.overflows);
      EXPECT_EQ(std::bit_cast<std::uint64_t>(got.seconds), std::bit_cast<std::uint64_t>(numbers.seconds));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(got.guard_error_max),
                std::bit_cast<std::uint64_t>(numbers.guard_error_max));
      EXPECT_EQ(got.method, numbers.method);
    }
    for (const auto& [site, numbers] : record.sites) EXPECT_TRUE(back.sites.contains(site));
  }
}

TEST(Text, holds_no_byte_that_ends_a_line_or_a_C_string_but_its_own_line_ends) {
  Record record;
  record.sites[std::string("a\0b\nc\rd\te", 9)];
  const std::string text = to_text(record);
  EXPECT_EQ(text.find('\0'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(Text, of_numbers_that_are_not_finite_comes_back) {
  for (const double value :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), -0.0,
        std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(),
        std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()}) {
    Record record;
    record.sites["s"].seconds = value;
    const double back = round_trip(record).sites.at("s").seconds;
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(back));
    else
      EXPECT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(Parse, refuses_every_truncation_and_leaves_the_record_alone) {
  Random random(seed());
  for (int i = 0; i < 20; ++i) {
    const std::string text = to_text(random_record(random, any_numbers));
    for (std::size_t size = 0; size < text.size(); ++size) {
      Record untouched;
      untouched.sites["here"];
      EXPECT_FALSE(parse(std::string_view(text).substr(0, size), untouched)) << size << " of\n" << text;
      EXPECT_TRUE(untouched.sites.size() == 1 && untouched.sites.contains("here"));
    }
  }
}

TEST(Parse, takes_of_any_mutation_only_what_is_a_text_of_a_record) {
  Random random(seed());
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = to_text(random_record(random, any_numbers));
    for (std::size_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const std::size_t where = random() % text.size();
      switch (random() % 4) {
        case 0: text[where] = static_cast<char>(random()); break;
        case 1: text.erase(where, 1 + random() % 9); break;
        case 2: text.insert(where, 1, "\t\n\\0-9e.x"[random() % 9]); break;
        default: text.insert(where, text.substr(random() % text.size(), random() % 99));
      }
    }
    Record record;
    if (parse(text, record))
      EXPECT_EQ(to_text(record), text);
    else
      ++refused;
  }
  EXPECT_GT(refused, 10000);
}

TEST(Parse, refuses_what_to_text_never_writes) {
  Record record;
  record.classes[{"c", 2, "MPI_FLOAT", "MPI_SUM", 20}].bytes = 7;
  const std::string text = to_text(record);
  const auto refused = [](const std::string& other) {
    Record out;
    return !parse(other, out);
  };
  const std::string line = text.substr(text.find('\n') + 1);
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("\n"));
  EXPECT_TRUE(refused(text + "\n"));
  EXPECT_TRUE(refused(text + line)) << "the same class twice";
  EXPECT_TRUE(refused("mpi_quant-record-1\t2\t0\n" + line + line));
  EXPECT_TRUE(refused("mpi_quant-record-1\t99999999999999999999\t0\n" + line));
  EXPECT_TRUE(refused("mpi_quant-record-2\t1\t0\n" + line));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    return other.replace(other.find(from), from.size(), to);
  };
  EXPECT_TRUE(refused(with("\t7\t", "\t07\t")));
  EXPECT_TRUE(refused(with("\t7\t", "\t-7\t")));
  EXPECT_TRUE(refused(with("\t7\t", "\t18446744073709551616\t")));
  EXPECT_TRUE(refused(with("\t7\t", "\t7 \t")));
  EXPECT_TRUE(refused(with("\t7\t", "\t\t")));
  EXPECT_TRUE(refused(with("\t20\t", "\t64\t"))) << "no vector is that large";
  EXPECT_TRUE(refused(with("\tc\t", "\t\\\t")));
  EXPECT_TRUE(refused(with("\tc\t", "\t\\6\t")));
  EXPECT_TRUE(refused(with("\tc\t", "\t\\63\t"))) << "nothing is escaped without need";
  EXPECT_FALSE(refused(with("\tc\t", "\td\t")));
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
