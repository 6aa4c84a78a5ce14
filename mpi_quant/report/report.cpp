// The records of all ranks merged, and the report as JSON; its tables are in report_table.cpp.

#include "mpi_quant/report/report.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "mpi_quant/base/json.hpp"

namespace mq {
namespace {

template <class Counts>
std::uint64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

class Object {
 public:
  Object& value(std::string_view key, const std::string& json) {
    text_.append(text_.size() == 1 ? "" : ",").append(json_quote(key)).append(":").append(json);
    return *this;
  }
  Object& text(std::string_view key, std::string_view text) { return value(key, json_quote(text)); }
  Object& number(std::string_view key, double number) { return value(key, json_number(number)); }
  Object& count(std::string_view key, std::uint64_t count) { return value(key, std::to_string(count)); }
  std::string json() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

// One item per line, because people read these files.
template <class Range, class Json>
std::string array_of(const Range& range, const Json& json_of) {
  std::string out;
  for (const auto& item : range) out.append(out.empty() ? "\n  " : ",\n  ").append(json_of(item));
  return "[" + out + (out.empty() ? "]" : "\n ]");
}

// Example: {"small":3}. The counts that are not zero, by the names of an enumeration.
template <class Enum, class Counts>
std::string counts_json(const Counts& counts) {
  Object out;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) out.count(name(static_cast<Enum>(i)), counts[i]);
  return out.json();
}

std::string choice_json(const ChoiceSummary& choice) {
  const auto& [known, totals, counts] = choice;
  Method asked;
  asked.automatic = known.calls.limit;
  return Object()
      .text("collective", name(known.calls.collective))
      .count("bytes", known.calls.bytes)
      .text("type", kernels::name(known.calls.element))
      .count("ranks", static_cast<std::uint64_t>(known.calls.ranks))
      .count("vectors", static_cast<std::uint64_t>(known.calls.vectors))
      .text("asked", to_string(asked))
      .text("method", to_string(known.method))
      .number("seconds", known.seconds)
      .number("mpi_seconds", known.dense_s)
      .count("calls", totals.calls)
      .count("compressed", totals.compressed)
      .count("inexact", totals.inexact)
      .number("saved_s", totals.saved_s)
      .number("explored_s", totals.explored_s)
      .count("judgements", totals.judgements)
      .number("worst_error", totals.worst_error)
      .count("methods", counts.methods)
      .count("tried", counts.tried)
      .count("over_limit", counts.over_limit)
      .number("margin", known.margin)
      .count("changes", totals.changes)
      .json();
}

std::string memory_json(const RankInfo& info) {
  return Object()
      .count("peak_rss_bytes", info.peak_rss_bytes)
      .count("scratch_bytes", info.scratch_bytes)
      .count("residual_bytes", info.residual_bytes)
      .json();
}

// 2^log2 bytes; null for the end of the last range.
std::string power_json(int log2) { return log2 < 64 ? std::to_string(std::uint64_t{1} << log2) : "null"; }

void add_merged(Object& out, const Merged& m) {
  Object seconds;
  seconds.number("min", m.seconds_min).number("mean", m.mean(&Numbers::seconds)).number("max", m.seconds_max);
  out.text("method", m.sum.method)
      .count("calls", m.total_calls())
      .value("reasons", counts_json<Reason>(m.calls))
      .count("lossy", m.lossy_calls())
      .count("calling_ranks", static_cast<std::uint64_t>(m.ranks))
      .count("bytes", m.sum.bytes)
      .count("compressed_bytes", m.sum.compressed_bytes)
      .count("wire_bytes", m.sum.wire_bytes)
      .count("overflows", m.sum.overflows)
      .value("seconds", seconds.json())
      .number("encode_s", m.mean(&Numbers::encode_s))
      .number("decode_s", m.mean(&Numbers::decode_s))
      .number("wait_s", m.mean(&Numbers::wait_s))
      .count("guarded", m.sum.guarded)
      .number("guard_error_mean", m.guard_error_mean())
      .number("guard_error_max",
              m.sum.guarded == 0 ? std::numeric_limits<double>::quiet_NaN() : m.sum.guard_error_max)
      .value("feedback", counts_json<FeedbackOutcome>(m.sum.feedback));
}

std::string class_json(const std::pair<const ClassId, Merged>& item) {
  const ClassId& id = item.first;
  Object out;
  out.text("comm", id.comm).value("ranks", std::to_string(id.ranks)).text("type", id.type).text("op", id.op);
  // A class of empty vectors covers [0, 1).
  out.value("bytes_min", id.log2_bytes < 0 ? "0" : power_json(id.log2_bytes));
  out.value("bytes_end", id.log2_bytes < 0 ? "1" : power_json(id.log2_bytes + 1));
  add_merged(out, item.second);
  const Warning warning = feedback_warning(item.second);
  out.count("feedback_waiting", item.second.feedback_calls(Fate::waiting))
      .count("feedback_lost", item.second.feedback_calls(Fate::lost))
      .text("warning", warning.what.empty() ? "" : warning.what + " " + warning.remedy);
  return out.json();
}

std::string site_json(const std::pair<const std::string, Merged>& item) {
  Object out;
  out.text("site", item.first);
  add_merged(out, item.second);
  return out.json();
}

template <class Map, class Of>
void merge_into(Map& merged, const Of& of_a_rank) {
  for (const auto& [key, numbers] : of_a_rank)
    if (numbers.total_calls() > 0) merged[key].add(numbers);
}

}  // namespace

std::uint64_t Merged::total_calls() const { return sum_of(calls); }

std::uint64_t Merged::lossy_calls() const {
  return lossless(sum.method) ? 0 : calls[static_cast<std::size_t>(Reason::compressed)];
}

double Merged::guard_error_mean() const {
  return sum.guarded == 0 ? std::numeric_limits<double>::quiet_NaN()
                          : sum.guard_error_sum / static_cast<double>(sum.guarded);
}

void Merged::add(const Numbers& n) {
  for (std::size_t i = 0; i < kReasons; ++i) calls[i] = std::max(calls[i], n.calls[i]);
  seconds_min = ranks == 0 ? n.seconds : std::min(seconds_min, n.seconds);
  seconds_max = ranks == 0 ? n.seconds : std::max(seconds_max, n.seconds);
  sum.add(n);
  ++ranks;
}

std::array<std::uint64_t, kReasons> Report::calls() const {
  std::array<std::uint64_t, kReasons> out{};
  for (const auto& [id, merged] : classes)
    for (std::size_t i = 0; i < kReasons; ++i) out[i] += merged.calls[i];
  return out;
}

std::uint64_t Report::lossy_calls() const {
  std::uint64_t out = 0;
  for (const auto& [id, merged] : classes) out += merged.lossy_calls();
  return out;
}

RankInfo Report::largest() const {
  RankInfo out;
  for (const RankInfo& rank : rank_info) {
    out.peak_rss_bytes = std::max(out.peak_rss_bytes, rank.peak_rss_bytes);
    out.scratch_bytes = std::max(out.scratch_bytes, rank.scratch_bytes);
    out.residual_bytes = std::max(out.residual_bytes, rank.residual_bytes);
  }
  return out;
}

std::uint64_t Report::unfinished_requests() const {
  std::uint64_t out = 0;
  for (const RankInfo& rank : rank_info) out += rank.unfinished_requests;
  return out;
}

std::vector<std::string> Report::nodes() const {
  std::vector<std::string> out;
  std::set<std::string_view> seen;
  for (const RankInfo& rank : rank_info)
    if (rank.host[0] != '\0' && seen.insert(rank.host.data()).second) out.emplace_back(rank.host.data());
  return out;
}

UnknownCommands Report::unknown_commands() const {
  UnknownCommands out;
  for (const RankInfo& rank : rank_info) {
    if (out.commands == 0) out.first = rank.unknown_commands.first;
    out.commands += rank.unknown_commands.commands;
  }
  return out;
}

std::string wrongs_text(const Report& report) {
  std::string out;
  if (const std::uint64_t n = report.unfinished_requests(); n > 0)
    out += "Requests of this library that were not completed before MPI_Finalize: " + std::to_string(n) +
           ". Their results are undefined.\n";
  if (const UnknownCommands wrong = report.unknown_commands(); wrong.commands > 0) {
    std::string first = wrong.first.data();
    std::replace_if(
        first.begin(), first.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    out += "Commands of MPI_Pcontrol that were not understood: " + std::to_string(wrong.commands) +
           ". The first: \"" + first +
           "\" (known: key=... of 1 to 63 characters, step, exact, end, flush).\n";
  }
  for (const std::string& mistyped : report.info.mistyped) out += mistyped + "\n";
  return out;
}

Report merge(RunInfo info, const std::vector<Record>& records, std::vector<RankInfo> rank_info) {
  Report out{std::move(info), std::move(rank_info), {}, {}};
  for (const Record& record : records) {
    merge_into(out.classes, record.classes);
    merge_into(out.sites, record.sites);
  }
  return out;
}

std::string to_json(const Report& report, const std::string& advice, const std::string& suggestion) {
  const RunInfo& info = report.info;
  Object memory;
  memory.value("largest", memory_json(report.largest()));
  memory.value("ranks", array_of(report.rank_info, memory_json));
  Object all;
  all.text("schema", "mpi_quant-report-1")
      .text("mode", info.mode)
      .text("policy", info.policy)
      .text("version", info.version)
      .text("mpi", info.mpi)
      .text("command", info.command)
      .number("elapsed_s", info.elapsed_s)
      .value("ranks", std::to_string(info.ranks))
      .value("nodes", array_of(report.nodes(), [](const std::string& s) { return json_quote(s); }))
      .count("lossy_results", report.lossy_calls())
      .value("reasons", counts_json<Reason>(report.calls()))
      .value("classes", array_of(report.classes, class_json))
      .value("sites", array_of(report.sites, site_json))
      .value("memory", memory.json());
  if (!info.gpu.empty()) all.text("gpu", info.gpu);
  const UnknownCommands wrong = report.unknown_commands();
  all.count("unfinished_requests", report.unfinished_requests()).count("unknown_commands", wrong.commands);
  if (wrong.commands > 0) all.text("first_unknown_command", wrong.first.data());
  if (!info.choices.empty()) all.value("choices", array_of(info.choices, choice_json));
  if (!info.mistyped.empty())
    all.value("mistyped_variables",
              array_of(info.mistyped, [](const std::string& s) { return json_quote(s); }));
  if (!advice.empty()) all.value("advice", advice);
  if (!suggestion.empty()) all.value("suggestion", suggestion);
  return all.json() + "\n";
}

}  // namespace mq
