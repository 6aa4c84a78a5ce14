// long on purpose: one report, as a table and as JSON.
// The report of the preload library: how the ranks' records are merged, its tables and its JSON.

#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "mpi_quant/report/report.hpp"
#include "tests/json.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/report/records.hpp"

namespace mq::test {
namespace {

const ClassId kGradients{"gradients", 4, "MPI_FLOAT", "MPI_SUM", 20};
const ClassId kScalars{"", 4, "MPI_DOUBLE", "MPI_SUM", 3};
const std::string kNothingLossy = "No result delivered to the program was lossy.";

RunInfo info(const std::string& mode = "on") {
  return {mode, "64K-: onebit", "0.1.0", "MPICH Version: 4.1", "./solve input.nml", 100, 4};
}

Numbers numbers(Reason reason, std::uint64_t calls, double seconds, const std::string& method = "") {
  Numbers out;
  out.calls[at(reason)] = calls;
  out.seconds = seconds;
  out.method = method;
  return out;
}

Record record_of(const ClassId& id, const Numbers& n) {
  Record out;
  out.classes[id] = n;
  return out;
}

Report report_of(const std::vector<Record>& records, const std::string& mode = "on") {
  return merge(info(mode), records, std::vector<RankInfo>(records.size()));
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The first line that contains a text.
std::string line_with(const std::string& table, const std::string& text) {
  for (const std::string& line : lines(table))
    if (line.find(text) != std::string::npos) return line;
  ADD_FAILURE() << text << " is not in\n" << table;
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Merge, counts_a_call_of_all_ranks_once_and_adds_their_bytes) {
  Numbers n = numbers(Reason::compressed, 10, 1, "onebit");
  n.bytes = 100;
  n.wire_bytes = 5;
  const Report report =
      report_of({record_of(kGradients, n), record_of(kGradients, n), record_of(kGradients, n)});
  const Merged& merged = report.classes.at(kGradients);
  EXPECT_EQ(merged.ranks, 3);
  EXPECT_EQ(merged.total_calls(), 10u);
  EXPECT_EQ(merged.sum.bytes, 300u);
  EXPECT_EQ(merged.sum.wire_bytes, 15u);
  EXPECT_EQ(report.lossy_calls(), 10u);
}

TEST(Merge, shows_a_straggler_as_the_distance_of_the_largest_time_from_the_smallest) {
  const Report report = report_of({record_of(kScalars, numbers(Reason::small, 1, 1)), Record{},
                                   record_of(kScalars, numbers(Reason::small, 1, 2)),
                                   record_of(kScalars, numbers(Reason::small, 1, 6))});
  const Merged& merged = report.classes.at(kScalars);
  EXPECT_EQ(merged.ranks, 3) << "the rank without such calls has no say";
  EXPECT_EQ(merged.seconds_min, 1);
  EXPECT_EQ(merged.mean(&Numbers::seconds), 3);
  EXPECT_EQ(merged.seconds_max, 6);
}

TEST(Merge, does_not_depend_on_the_order_of_the_ranks) {
  Random random(seed());
  for (int i = 0; i < 50; ++i) {
    std::vector<Record> records(5);
    for (Record& record : records) record = random_record(random, sane_numbers);
    const std::string before = to_json(report_of(records));
    std::shuffle(records.begin(), records.end(), random);
    EXPECT_EQ(to_json(report_of(records)), before);
  }
}

TEST(Merge, stays_within_the_bounds_of_the_ranks) {
  Random random(seed());
  for (int i = 0; i < 50; ++i) {
    std::vector<Record> records(4);
    for (Record& record : records) record = random_record(random, sane_numbers);
    for (const auto& [id, merged] : report_of(records).classes) {
      EXPECT_GT(merged.total_calls(), 0u);
      const double mean = merged.mean(&Numbers::seconds);
      EXPECT_TRUE(merged.seconds_min <= mean && mean <= merged.seconds_max);
      EXPECT_LE(merged.total_calls(), merged.sum.total_calls());
      EXPECT_LE(merged.lossy_calls(), merged.calls[at(Reason::compressed)]);
    }
  }
}

TEST(Merge, drops_classes_without_calls) {
  EXPECT_TRUE(report_of({record_of(kScalars, Numbers{})}).classes.empty());
}

TEST(Merge, gives_the_mean_error_of_guarded_calls_and_the_largest) {
  Numbers n = numbers(Reason::compressed, 4, 1, "onebit");
  n.guarded = 4;
  n.guard_error_sum = 2;
  n.guard_error_max = 0.75;
  Numbers other = n;
  other.guard_error_max = 0.9;
  const Merged merged =
      report_of({record_of(kGradients, n), record_of(kGradients, other)}).classes.at(kGradients);
  EXPECT_EQ(merged.guard_error_mean(), 0.5);
  EXPECT_EQ(merged.sum.guard_error_max, 0.9);
  EXPECT_TRUE(std::isnan(Merged{}.guard_error_mean()));
}

TEST(Table, says_in_its_last_line_how_many_results_were_lossy) {
  const auto last = [](const std::vector<Record>& records) {
    return lines(to_table(report_of(records))).back();
  };
  EXPECT_EQ(last({}), kNothingLossy);
  EXPECT_EQ(last({record_of(kScalars, numbers(Reason::small, 9, 1))}), kNothingLossy);
  EXPECT_EQ(last({record_of(kGradients, numbers(Reason::compressed, 9, 1, "raw/direct"))}), kNothingLossy);
  EXPECT_EQ(last({record_of(kGradients, numbers(Reason::would_be_compressed, 9, 1, "onebit"))}),
            kNothingLossy);
  EXPECT_EQ(last({record_of(kGradients, numbers(Reason::guard, 9, 1, "onebit"))}), kNothingLossy);
  EXPECT_EQ(last({record_of(kGradients, numbers(Reason::compressed, 9, 1, "onebit"))}),
            "9 results delivered to the program were lossy.");
  EXPECT_EQ(last({record_of(kGradients, numbers(Reason::compressed, 9, 1))}),
            "9 results delivered to the program were lossy.")
      << "an unknown method is no exact one";
}

TEST(Table, takes_no_class_for_exact_that_was_lossy_on_any_rank) {
  const Numbers lossy = numbers(Reason::compressed, 3, 1, "onebit");
  const Numbers exact = numbers(Reason::compressed, 5, 1, "raw");
  for (const auto& records :
       {std::vector{record_of(kGradients, lossy), record_of(kGradients, exact)},
        std::vector{record_of(kGradients, exact), record_of(kGradients, lossy)},
        std::vector{record_of(kGradients, numbers(Reason::rule, 7, 1)), record_of(kGradients, lossy)}})
    EXPECT_GT(report_of(records).lossy_calls(), 0u);
}

TEST(Table, orders_classes_by_time_and_gives_reasons_with_counts) {
  Record record;
  Numbers n = numbers(Reason::compressed, 120, 25, "onebit");
  n.calls[at(Reason::rule)] = 20;
  record.classes[kGradients] = n;
  record.classes[kScalars] = numbers(Reason::small, 7, 50);
  const std::string table = to_table(report_of({record}));
  EXPECT_LT(table.find("(no name)"), table.find("gradients"));
  const std::string line = line_with(table, "gradients");
  for (const char* const part : {"FLOAT", "SUM", "1M-2M", " 140 ", " 25.000 ", " 25.0 ", "onebit"})
    EXPECT_TRUE(contains(line, part)) << part << " in " << line;
  EXPECT_TRUE(contains(table, "compressed 120"));
  EXPECT_TRUE(contains(table, "no rule compresses it 20"));
  EXPECT_TRUE(contains(line_with(table, "(no name)"), "below the floor of 64 KiB"));
}

TEST(Table, sums_what_comes_after_forty_classes_into_one_line) {
  Record record;
  for (int i = 0; i < 40; ++i)
    record.classes[{"c" + std::to_string(i), 4, "MPI_FLOAT", "MPI_SUM", 20}] =
        numbers(Reason::rule, 1, 1000 - i);
  EXPECT_FALSE(contains(to_table(report_of({record})), "more classes"));
  for (int i = 40; i < 45; ++i)
    record.classes[{"c" + std::to_string(i), 4, "MPI_FLOAT", "MPI_SUM", 20}] = numbers(Reason::rule, 3, 2);
  const std::string line = line_with(to_table(report_of({record})), "5 more classes");
  EXPECT_TRUE(contains(line, " 15 ") && contains(line, " 10.000 ")) << line;
}

TEST(Table, of_explain_says_that_nothing_was_changed_and_why_each_class_would_be_what) {
  Record record;
  record.classes[kGradients] = numbers(Reason::would_be_compressed, 12, 2, "onebit");
  record.classes[kScalars] = numbers(Reason::small, 7, 1);
  const std::string table = to_table(report_of({record}, "explain"));
  EXPECT_TRUE(contains(table, "would be compressed?"));
  EXPECT_TRUE(contains(table, "nothing was changed; this is what the policy would do"));
  EXPECT_TRUE(contains(line_with(table, "gradients"), "yes"));
  EXPECT_TRUE(contains(line_with(table, "(no name)"), "no: below the floor of 64 KiB"));
  EXPECT_FALSE(contains(to_table(report_of({record}, "on")), "nothing was changed"));
}

TEST(Table, keeps_to_its_columns_whatever_the_names_are) {
  Record record;
  record.classes[{"a\nb\tc", 4, "MPI_FLOAT", "MPI_SUM", 20}] = numbers(Reason::rule, 1, 4);
  record.classes[{"\xc3\xa4\xc3\xb6", 4, "MPI_FLOAT", "MPI_SUM", 21}] = numbers(Reason::rule, 1, 3);
  record.classes[{"\xff", 4, "MPI_FLOAT", "MPI_SUM", 22}] = numbers(Reason::rule, 1, 2);
  record.classes[{std::string(500, 'x'), 4, "MPI_FLOAT", "MPI_SUM", 63}] = numbers(Reason::rule, 1, 1);
  const std::string table = to_table(report_of({record}));
  const auto column = [&](const std::string& row) {
    const std::string before = row.substr(0, row.find("FLOAT"));
    return std::count_if(before.begin(), before.end(), [](char c) { return (c & 0xc0) != 0x80; });
  };
  for (const char* const name : {"a?b?c", "\xc3\xa4\xc3\xb6", "  ?  ", "xxx..."})
    EXPECT_EQ(column(line_with(table, name)), column(line_with(table, "xxx..."))) << table;
}

TEST(Table, is_about_as_wide_as_a_terminal_for_all_reasons_at_once) {
  Record record;
  Numbers n = numbers(Reason::compressed, 1, 1, "onebit");
  n.calls.fill(123456);
  n.feedback.fill(123456);
  record.classes[kGradients] = n;
  record.sites["/usr/lib/some/very/long/path/of/a/solver/libsolver_with_a_long_name.so.12+0x1234"] = n;
  for (const std::string& line : lines(to_table(report_of({record})))) EXPECT_LE(line.size(), 150u) << line;
}

TEST(Table, is_made_of_any_numbers) {
  Random random(seed());
  for (int i = 0; i < 200; ++i) {
    std::vector<Record> records(3);
    for (Record& record : records) record = random_record(random, any_numbers);
    const Report report = report_of(records, i % 2 == 0 ? "on" : "explain");
    EXPECT_FALSE(to_table(report).empty());
    EXPECT_TRUE(JsonReader::read(to_json(report))) << to_json(report);
  }
}

// A class of 1000 calls with feedback, of which so many came to this outcome.
Record with_feedback(FeedbackOutcome outcome, std::uint64_t calls,
                     FeedbackOutcome others = FeedbackOutcome::hit) {
  Numbers n = numbers(Reason::compressed, 1000, 1, "onebit");
  n.feedback[at(others)] = 1000 - calls;
  n.feedback[at(outcome)] += calls;
  return record_of(kGradients, n);
}

std::string warning_of(const Record& record) {
  const Report report = report_of({record});
  const auto read = JsonReader::read(to_json(report));
  EXPECT_TRUE(read) << to_json(report);
  std::string warning = read ? (*read)["classes"][0]["warning"].string : "";
  const std::string table = to_table(report);
  EXPECT_EQ(contains(table, "Warning: gradients, 4 ranks, FLOAT, 1M-2M bytes:"), !warning.empty()) << table;
  return warning;
}

TEST(Warning, is_given_where_more_than_one_call_in_twenty_lost_its_residual_and_says_what_to_do) {
  for (const FeedbackOutcome lost :
       {FeedbackOutcome::shape, FeedbackOutcome::stranger, FeedbackOutcome::in_use}) {
    EXPECT_EQ(warning_of(with_feedback(lost, 50)), "") << name(lost);
    const std::string warning = warning_of(with_feedback(lost, 51));
    EXPECT_TRUE(contains(warning, "5.1 % of the calls with feedback lost their residual")) << warning;
    EXPECT_TRUE(contains(warning, "(" + std::string(name(lost)) + ")")) << warning;
    EXPECT_TRUE(
        contains(warning, "State a key before each such call: MPI_Pcontrol(MPIQ_PCONTROL, \"key=NAME\")"));
  }
  EXPECT_TRUE(contains(warning_of(with_feedback(FeedbackOutcome::budget, 600)), "MPIQ_RESIDUALS"));
  EXPECT_EQ(warning_of(with_feedback(FeedbackOutcome::not_finite, 600)), "") << "a key would not help";
}

TEST(Warning, counts_the_elements_that_a_method_made_infinite) {
  Numbers n = numbers(Reason::compressed, 10, 1, "f16");
  EXPECT_FALSE(contains(to_table(report_of({record_of(kGradients, n)})), "too large for"));
  n.overflows = 3;
  const Report report = report_of({record_of(kGradients, n), record_of(kGradients, n)});
  EXPECT_TRUE(contains(to_table(report), "6 finite elements were too large for f16 on "));
  EXPECT_TRUE(contains(to_table(report), "f16(scale=block)"));
}

TEST(Warning, is_given_where_most_calls_wait_for_their_identity) {
  EXPECT_EQ(warning_of(with_feedback(FeedbackOutcome::unconfirmed, 500)), "");
  const std::string warning = warning_of(with_feedback(FeedbackOutcome::unconfirmed, 501));
  EXPECT_TRUE(contains(
      warning,
      "50 % of the calls with feedback ran without it, because the library did not recognise the vector (unconfirmed)."))
      << warning;
  EXPECT_TRUE(contains(warning, "State a key")) << warning;
}

TEST(Warning, comes_before_the_last_line_and_not_where_nobody_asked_for_feedback) {
  const auto all = lines(to_table(report_of({with_feedback(FeedbackOutcome::shape, 1000)})));
  EXPECT_EQ(all.back(), "1000 results delivered to the program were lossy.");
  EXPECT_EQ(warning_of(record_of(kGradients, numbers(Reason::compressed, 9, 1, "onebit"))), "");
}

TEST(Table, explains_the_words_for_feedback_that_occur_in_it) {
  const std::string table = to_table(report_of({with_feedback(FeedbackOutcome::fresh, 1)}));
  for (const FeedbackOutcome said : {FeedbackOutcome::hit, FeedbackOutcome::fresh})
    EXPECT_TRUE(contains(line_with(table, std::string(words(said))), name(said).data())) << table;
  EXPECT_FALSE(contains(table, std::string(words(FeedbackOutcome::budget)))) << table;
  EXPECT_FALSE(
      contains(to_table(report_of({record_of(kScalars, numbers(Reason::small, 9, 1))})), "Feedback"));
}

TEST(Json, says_the_same_as_the_records) {
  Record record;
  Numbers n = numbers(Reason::compressed, 120, 25, "onebit");
  n.calls[at(Reason::rule)] = 20;
  n.feedback[at(FeedbackOutcome::hit)] = 119;
  record.classes[kGradients] = n;
  record.classes[{"", 4, "MPI_INT", "MPI_MAX", -1}] = numbers(Reason::type, 2, 0);
  record.sites["solve+0x12"] = n;
  Report report = report_of({record, record});
  report.rank_info = {{100, 1, 7}, {90, 5, 2}};
  const auto read = JsonReader::read(to_json(report));
  ASSERT_TRUE(read) << to_json(report);
  const Json& json = *read;
  EXPECT_EQ(json["schema"].string, "mpi_quant-report-1");
  EXPECT_EQ(json["mode"].string, "on");
  EXPECT_EQ(json["policy"].string, "64K-: onebit");
  EXPECT_EQ(json["command"].string, "./solve input.nml");
  EXPECT_EQ(json["elapsed_s"].number, 100);
  EXPECT_EQ(json["ranks"].number, 4);
  EXPECT_EQ(json["lossy_results"].number, 120);
  EXPECT_EQ(json["reasons"]["type"].number, 2);
  ASSERT_EQ(json["classes"].items.size(), 2u);
  EXPECT_EQ(json["classes"][0]["bytes_min"].number, 0);
  const Json& gradients = json["classes"][1];
  EXPECT_EQ(gradients["comm"].string, "gradients");
  EXPECT_EQ(gradients["bytes_min"].number, 1 << 20);
  EXPECT_EQ(gradients["bytes_end"].number, 2 << 20);
  EXPECT_EQ(gradients["reasons"].members.size(), 2u);
  EXPECT_EQ(gradients["reasons"]["compressed"].number, 120);
  EXPECT_EQ(gradients["seconds"]["mean"].number, 25);
  EXPECT_EQ(gradients["feedback"]["hit"].number, 238);
  EXPECT_EQ(gradients["feedback_lost"].number, 0);
  EXPECT_EQ(gradients["guard_error_mean"].kind, Json::Kind::null);
  EXPECT_EQ(json["sites"][0]["site"].string, "solve+0x12");
  EXPECT_EQ(json["memory"]["largest"]["scratch_bytes"].number, 5);
  EXPECT_EQ(json["memory"]["ranks"][1]["peak_rss_bytes"].number, 90);
}

TEST(Report, names_the_nodes_each_once_in_the_order_of_the_ranks) {
  std::vector<RankInfo> ranks(5);
  EXPECT_FALSE(contains(to_table(merge(info(), {}, ranks)), "nodes"));
  const auto set = [](RankInfo& rank, const std::string& name) {
    std::copy(name.begin(), name.end(), rank.host.begin());
  };
  for (std::size_t r : {0, 2}) set(ranks[r], "beta");
  for (std::size_t r : {1, 4}) set(ranks[r], "alpha");  // nothing is known of rank 3
  EXPECT_TRUE(contains(to_table(merge(info(), {}, ranks)), "\n  nodes    2: beta, alpha\n"));
  const auto json = JsonReader::read(to_json(merge(info(), {}, ranks)));
  ASSERT_TRUE(json && (*json)["nodes"].items.size() == 2);
  EXPECT_EQ((*json)["nodes"][0].string, "beta");
  EXPECT_EQ((*json)["nodes"][1].string, "alpha");

  ranks.resize(128);
  for (std::size_t r = 0; r < ranks.size(); ++r) set(ranks[r], "node" + std::to_string(100 + r / 2));
  const Report many = merge(info(), {}, ranks);
  EXPECT_TRUE(contains(to_table(many), "\n  nodes    64: node100 to node163\n"));
  const auto all = JsonReader::read(to_json(many));
  EXPECT_TRUE(all && (*all)["nodes"].items.size() == 64);
}

TEST(Report, says_why_GPU_memory_is_not_known) {
  Report report = report_of({});
  EXPECT_EQ(to_table(report).find("GPU"), std::string::npos);
  EXPECT_EQ(to_json(report).find("gpu"), std::string::npos);
  report.info.gpu = "libmpi_quant_cuda.so was not found";
  EXPECT_NE(to_table(report).find("  GPU      libmpi_quant_cuda.so was not found\n"), std::string::npos);
  const auto read = JsonReader::read(to_json(report));
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)["gpu"].string, report.info.gpu);
}

TEST(Json, quotes_any_bytes_and_keeps_UTF_8_as_it_is) {
  EXPECT_EQ(json_quote("a\"b\\c\n\x7f"), "\"a\\\"b\\\\c\\u000a\x7f\"");
  EXPECT_EQ(json_quote("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(json_quote("\xff"), "\"\\u00ff\"");
  EXPECT_EQ(json_quote("\xe2\x82"), "\"\\u00e2\\u0082\"") << "cut off";
  EXPECT_EQ(json_quote("\xc0\xaf"), "\"\\u00c0\\u00af\"") << "overlong";
  EXPECT_EQ(json_quote("\xed\xa0\x80"), "\"\\u00ed\\u00a0\\u0080\"") << "a surrogate";
  EXPECT_EQ(json_quote("\xf4\x90\x80\x80"), "\"\\u00f4\\u0090\\u0080\\u0080\"") << "beyond Unicode";
  Random random(seed());
  for (int i = 0; i < 5000; ++i) {
    const std::string name = nasty_name(random);
    const auto read = JsonReader::read(json_quote(name));
    ASSERT_TRUE(read) << json_quote(name);
    EXPECT_EQ(read->string, name);
  }
}

TEST(Json, has_null_for_numbers_that_are_not_finite_and_others_to_the_bit) {
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(json_number(0.1), "0.1");
  Random random(seed());
  for (int i = 0; i < 5000; ++i) {
    const double value = any_double(random);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(JsonReader::read(json_number(value))->number, value);
  }
}

TEST(Report, has_decimal_points_in_every_locale) {
  Record record = record_of(kGradients, numbers(Reason::compressed, 1, 12.5, "onebit"));
  const std::string table = to_table(report_of({record})), json = to_json(report_of({record}));
  for (const char* const locale : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
    std::setlocale(LC_ALL, locale);
  EXPECT_EQ(to_table(report_of({record})), table);
  EXPECT_EQ(to_json(report_of({record})), json);
  std::setlocale(LC_ALL, "C");
}

}  // namespace
}  // namespace mq::test
