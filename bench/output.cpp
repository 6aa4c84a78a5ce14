#include "bench/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "bench/build_info.hpp"
#include "bench/console.hpp"
#include "bench/counters.hpp"

namespace mq::bench {
namespace {

constexpr double kMicro = 1e6;
constexpr std::array kAllParts{kInCall, kInEncode, kInDecode, kInNothing};

// The collective as programs of the OSU Micro-Benchmarks call it. They have none of sparse vectors.
std::string osu_name(const Options& o) {
  if (o.sparse) return "Sparse Allreduce";
  const char* const form = o.form == Form::persistent                          ? "Persistent "
                           : o.form == Form::nonblocking || !o.overlap.empty() ? "Non-blocking "
                                                                               : "";
  const std::string_view word = name(o.collective);
  return fmt::format("MPI {}{}{}", form, static_cast<char>(word[0] - 'a' + 'A'), word.substr(1));
}

// Whether the row is a timing of a right result.
bool has_time(const PointRow& r) {
  return r.status.str() == "ok" && r.oversubscribed != 1 && r.reps > 0 && std::isfinite(r.t_median_s);
}

// What rows of one picture have in common: the ranks, the type, and of sparse vectors the lists
// ("density=0.01,..."), of calls that do not block how long they compute, and how late ranks are.
using Setting = std::tuple<int, std::string, std::string>;
Setting setting_of(const PointRow& r) {
  if (r.compute_percent > 0)
    return {r.ranks, r.dtype.str(), fmt::format("computing {} %", r.compute_percent)};
  const std::string params = r.comp_params.str();
  const std::size_t lists =
      r.collective.str() == "sparse_allreduce" ? params.rfind("density=") : std::string::npos;
  std::string what = lists == std::string::npos ? "" : params.substr(lists);
  if (r.arrival.str() != to_string(Arrival{}))
    what += (what.empty() ? "arrival " : ", arrival ") + r.arrival.str();
  return {r.ranks, r.dtype.str(), what};
}

std::string quoted(std::string text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 2))
    text.insert(at, 1, '"');
  return "\"" + text + "\"";
}

template <class T>
T value_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
std::string integer(const std::byte* at) {
  const T value = value_at<T>(at);
  return std::is_signed_v<T> && value == static_cast<T>(-1) ? "" : fmt::format("{}", +value);
}

std::string cell(const Column& column, const std::byte* at) {
  switch (column.type) {
    case ColumnType::i8: return integer<std::int8_t>(at);
    case ColumnType::i16: return integer<std::int16_t>(at);
    case ColumnType::i32: return integer<std::int32_t>(at);
    case ColumnType::i64: return integer<std::int64_t>(at);
    case ColumnType::u64: return integer<std::uint64_t>(at);
    case ColumnType::f64: {
      const double value = value_at<double>(at);
      return std::isnan(value) ? "" : fmt::format("{}", value);
    }
    case ColumnType::text: {
      const char* const text = reinterpret_cast<const char*>(at);
      return quoted(std::string(text, std::find(text, text + column.bytes, '\0')));
    }
  }
  return "";
}

// of_row(column), of_input(column): the text for a column of the row, and of its input.
template <class OfRow, class OfInput>
std::string csv(const OfRow& of_row, const OfInput& of_input, const std::vector<std::string>& more) {
  std::string line;
  for (const Column& column : columns_of<PointRow>()) line += (line.empty() ? "" : ",") + of_row(column);
  for (const Column& column : given_columns()) line += "," + of_input(column);
  for (const std::string& text : more) line += "," + text;
  return line + "\r\n";
}

// A logarithmic axis of some cells from one value to another.
struct Axis {
  double first, last;
  int cells;
  int at(double value) const {
    if (last <= first) return 0;
    return static_cast<int>(std::lround(std::log(value / first) / std::log(last / first) * (cells - 1)));
  }
};

// The picture of the rows of one setting.
std::string picture(const Setting& setting, const std::vector<const PointRow*>& rows) {
  constexpr int kAcross = 61, kUp = 17, kLabel = 11;
  Axis x{static_cast<double>(rows[0]->bytes), 0, kAcross}, y{rows[0]->t_median_s, 0, kUp};
  std::vector<std::string> methods;
  for (const PointRow* r : rows) {
    x = {std::min(x.first, static_cast<double>(r->bytes)), std::max(x.last, static_cast<double>(r->bytes)),
         kAcross};
    y = {std::min(y.first, r->t_median_s), std::max(y.last, r->t_median_s), kUp};
    if (std::find(methods.begin(), methods.end(), r->method.str()) == methods.end())
      methods.push_back(r->method.str());
  }
  std::vector<std::string> lines(kUp, std::string(kAcross, ' '));
  const auto letter = [&](const std::string& method) {
    const auto number = std::find(methods.begin(), methods.end(), method) - methods.begin();
    return static_cast<char>(number < 26 ? 'a' + number : 'A' + number % 26);
  };
  for (const PointRow* r : rows) {
    char& there = lines[static_cast<std::size_t>(kUp - 1 - y.at(r->t_median_s))]
                       [static_cast<std::size_t>(x.at(static_cast<double>(r->bytes)))];
    there = there == ' ' ? letter(r->method.str()) : '*';
  }
  const auto& [ranks, dtype, lists] = setting;
  std::string text = fmt::format(
      "#\n# time over size, {} ranks, {}; both axes logarithmic; * is more than one\n", ranks, dtype);
  if (!lists.empty()) text += fmt::format("# {}\n", lists);
  for (int i = 0; i < kUp; ++i) {
    std::string& line = lines[static_cast<std::size_t>(i)];
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("# {:>{}} |{}\n",
                        i == 0         ? duration(y.last)
                        : i == kUp - 1 ? duration(y.first)
                                       : "",
                        kLabel, line);
  }
  const std::string from = human_size(static_cast<std::uint64_t>(x.first));
  text +=
      fmt::format("# {:>{}} +{:-<{}}\n# {:>{}}  {}{:>{}}\n", "", kLabel, "", kAcross, "", kLabel, from,
                  human_size(static_cast<std::uint64_t>(x.last)), kAcross - static_cast<int>(from.size()));
  for (const std::string& method : methods)
    text += fmt::format("# {:>{}}  {} {}\n", "", kLabel, letter(method), method);
  return text;
}

}  // namespace

std::string csv_head(const std::vector<std::string>& events) {
  std::vector<std::string> counted;
  for (const std::string& event : events)
    for (const CountedPart part : kAllParts) counted.push_back(quoted(event + "." + name(part)));
  return csv([](const Column& column) { return std::string(column.name); },
             [](const Column& column) { return std::string("input_") + column.name; }, counted);
}

std::string csv_line(const Measurement& m, const InputRow& input, const std::vector<std::string>& events) {
  const auto cells_of = [](const auto& values) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&values);
    return [bytes](const Column& column) { return cell(column, bytes + column.offset); };
  };
  std::vector<std::string> counted;
  for (const std::string& event : events)
    for (const CountedPart part : kAllParts) {
      const auto row = std::find_if(m.counters.begin(), m.counters.end(), [&](const CounterRow& c) {
        return c.event.str() == event && c.phase.str() == name(part);
      });
      const bool known = row != m.counters.end() && !std::isnan(row->count);
      counted.push_back(known ? fmt::format("{}", row->count) : "");
    }
  return csv(cells_of(m.row), cells_of(input), counted);
}

std::string graph_text(const std::vector<PointRow>& rows) {
  std::map<Setting, std::vector<const PointRow*>> pictures;
  for (const PointRow& r : rows)
    if (has_time(r)) pictures[setting_of(r)].push_back(&r);
  std::string text;
  for (const auto& [setting, own] : pictures) text += picture(setting, own);
  return text;
}

// A line of the table of a method, or a comment that says why there is none. Columns of osu_iallreduce:
// medians of the slowest rank. All others are over ranks, see osu_text.
std::string Output::osu_line(const Row& r) const {
  const PointRow& row = r.row;
  if (row.oversubscribed == 1) return fmt::format("# {}: more ranks than CPUs, no timing\n", row.bytes);
  if (!has_time(row)) return fmt::format("# {}: {}: {}\n", row.bytes, row.status.str(), row.note.str());
  if (!options_->overlap.empty())
    return fmt::format("{:<10}{:>20.2f}{:>20.2f}{:>20.2f}{:>20.2f}\n", row.bytes, row.t_median_s * kMicro,
                       row.t_compute_s * kMicro, row.t_pure_s * kMicro, row.overlap);
  return fmt::format("{:<10}{:>20.2f}{:>20.2f}{:>20.2f}{:>12}\n", row.bytes, r.avg_s * kMicro,
                     r.min_s * kMicro, r.max_s * kMicro,
                     static_cast<std::int64_t>(row.reps) * std::max(row.batch, 1));
}

// Columns as osu_allreduce -f has them: each rank has the mean of its repetitions, and of these means there
// are the mean, the least and the greatest over ranks. Of calls that do not block: as osu_iallreduce has
// them.
std::string Output::osu_text() const {
  std::map<std::pair<Setting, std::string>, std::vector<const Row*>> tables;
  for (const Row& r : rows_)
    if (r.row.compute_percent != 0)  // a column of the rows that compute
      tables[{setting_of(r.row), r.row.method.str()}].push_back(&r);
  std::string text;
  for (auto& [key, rows] : tables) {
    const auto& [setting, method] = key;
    const auto& [ranks, dtype, lists] = setting;
    std::sort(rows.begin(), rows.end(),
              [](const Row* a, const Row* b) { return a->row.bytes < b->row.bytes; });
    text +=
        fmt::format("\n# {} Latency Test, mpiq-bench {}, method {}, {} ranks, {}{}{}\n", osu_name(*options_),
                    build_info().version, method, ranks, dtype, lists.empty() ? "" : ", ", lists);
    if (options_->overlap.empty())
      text += fmt::format("{:<10}{:>20}{:>20}{:>20}{:>12}\n", "# Size", "Avg Latency(us)", "Min Latency(us)",
                          "Max Latency(us)", "Iterations");
    else
      text += fmt::format("{:<10}{:>20}{:>20}{:>20}{:>20}\n", "# Size", "Overall(us)", "Compute(us)",
                          "Pure Comm.(us)", "Overlap(%)");
    for (const Row* r : rows) text += osu_line(*r);
  }
  return text;
}

void Output::add(const Measurement& m, const InputRow& input) {
  if (options_->format == Format::table) {
    print_row(m.row);
    if (options_->phases) print_phases(m);
    print_counters(m);
  } else if (options_->format == Format::csv) {
    print_out((rows_.empty() ? csv_head(options_->counters) : "") + csv_line(m, input, options_->counters));
  }
  Row kept{m.row, kUnknown, kUnknown, kUnknown};
  if (const std::size_t ranks = m.valid.empty() ? 0 : m.t_rank.size() / m.valid.size(); ranks > 0) {
    std::vector<double> sums(ranks, 0);
    for (std::size_t k = 0; k < m.valid.size(); ++k)
      for (std::size_t r = 0; r < ranks && m.valid[k] != 0; ++r) sums[r] += m.t_rank[k * ranks + r];
    const auto valid =
        static_cast<double>(std::count_if(m.valid.begin(), m.valid.end(), [](auto v) { return v != 0; }));
    double all = 0;
    for (const double sum : sums) all += sum / valid;
    kept.avg_s = all / static_cast<double>(ranks);
    kept.min_s = *std::min_element(sums.begin(), sums.end()) / valid;
    kept.max_s = *std::max_element(sums.begin(), sums.end()) / valid;
  }
  rows_.push_back(kept);
}

void Output::finish() const {
  if (options_->format == Format::osu) print_out(osu_text());
  if (!options_->graph) return;
  std::vector<PointRow> rows;
  for (const Row& r : rows_) rows.push_back(r.row);
  print_out(graph_text(rows));
}

}  // namespace mq::bench
