// The report as tables for people.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi_quant/base/figures.hpp"
#include "mpi_quant/base/json.hpp"
#include "mpi_quant/policy/words.hpp"
#include "mpi_quant/report/report.hpp"
#include "mpi_quant/report/table.hpp"

namespace mq {
namespace {

constexpr std::size_t kMaxRows = 40;
constexpr std::size_t kNameWidth = 18, kSiteWidth = 56;

// Uses std::to_chars, because a program may have set a locale with another decimal point.
std::string text_of(double value, std::chars_format format, int precision) {
  std::array<char, 400> text;  // the largest double has 309 digits
  return {text.begin(), std::to_chars(text.begin(), text.end(), value, format, precision).ptr};
}
std::string fixed(double value, int precision) {
  return text_of(value, std::abs(value) < 1e9 ? std::chars_format::fixed : std::chars_format::scientific,
                 precision);
}
std::string seconds_text(double s) { return s > 0 && s < 0.0005 ? "<0.001" : fixed(s, 3); }

std::string share_text(double part, double whole) {
  return part >= 0 && whole > 0 ? fixed(100 * part / whole, 1) : "-";
}

// Example: "1.5G".
std::string amount(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes);
  auto value = static_cast<double>(bytes);
  constexpr std::string_view suffixes = "KMGTPE";
  std::size_t i = 0;
  for (value /= 1024; value >= 1024 && i + 1 < suffixes.size(); ++i) value /= 1024;
  return fixed(value, 1) + suffixes[i];
}

std::string bucket(int log2_bytes) {
  if (log2_bytes < 0) return "0";
  log2_bytes = std::min(log2_bytes, 63);
  return size_range_text(std::uint64_t{1} << log2_bytes,
                         log2_bytes < 63 ? std::uint64_t{1} << (log2_bytes + 1) : kNoEnd);
}

// The text on one line and in valid UTF-8, whatever bytes it has.
std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (bytes == 0 || c < 0x20 || c == 0x7f)
      out += '?';
    else
      out += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

// The index of the byte at which character number n begins.
std::size_t offset_of(std::string_view text, std::size_t n) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xc0) != 0x80 && n-- == 0) break;
  return at;
}

// Shortens a name that is too long. beginning() keeps its start; end() keeps its end, which tells more about
// a path.
std::string beginning(const std::string& text, std::size_t most) {
  return width(text) <= most ? text : text.substr(0, offset_of(text, most - 3)) + "...";
}
std::string ending(const std::string& text, std::size_t most) {
  return width(text) <= most ? text : "..." + text.substr(offset_of(text, width(text) - most + 3));
}

std::string comm_text(const ClassId& id) {
  return id.comm.empty() ? "(no name)" : beginning(printable(id.comm), kNameWidth);
}

// "MPI_FLOAT" without the prefix that all names share.
std::string short_name(const std::string& handle) {
  const std::string text = printable(handle);
  return text.starts_with("MPI_") ? text.substr(4) : text;
}

constexpr Table::Side kLeft = Table::Side::left;

using Counts = std::array<std::uint64_t, kReasons>;

// The reasons that occur, sorted by their number of calls.
std::vector<std::pair<Reason, std::uint64_t>> by_calls(const Counts& calls) {
  std::vector<std::pair<Reason, std::uint64_t>> out;
  for (std::size_t i = 0; i < kReasons; ++i)
    if (calls[i] != 0) out.emplace_back(static_cast<Reason>(i), calls[i]);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

// Example: "compressed 120, no rule compresses it 20". A single reason needs no count. In mode explain the
// column answers a question.
std::string outcome(const Merged& m, bool explain) {
  const auto reasons = by_calls(m.calls);
  const auto answer = [&](Reason reason) {
    if (!explain) return std::string(words(reason));
    if (reason == Reason::would_be_compressed) return std::string("yes");
    return "no: " + std::string(words(reason));
  };
  return joined(
      reasons,
      [&](const auto& reason) {
        return answer(reason.first) + (reasons.size() > 1 ? " " + std::to_string(reason.second) : "");
      },
      ", ");
}
std::string_view outcome_column(bool explain) { return explain ? "would be compressed?" : "outcome"; }

// The items of a map, sorted by time.
template <class Map>
auto by_time(const Map& map) {
  std::vector<const typename Map::value_type*> out;
  for (const auto& item : map) out.push_back(&item);
  const auto seconds = [](const auto* item) {
    const double s = item->second.mean(&Numbers::seconds);
    return std::isfinite(s) ? s : 0;
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const auto* a, const auto* b) { return seconds(a) > seconds(b); });
  return out;
}

// Prints a row for each of the first `items`. The others are summed into one row with these columns.
template <class Items, class Row, class Rest>
void fill(const Items& items, const Row& row, const Rest& rest_row) {
  const std::size_t shown = std::min(items.size(), kMaxRows);
  for (std::size_t i = 0; i < shown; ++i) row(*items[i]);
  if (shown == items.size()) return;
  std::uint64_t calls = 0;
  double seconds = 0;
  for (std::size_t i = shown; i < items.size(); ++i) {
    calls += items[i]->second.total_calls();
    seconds += items[i]->second.mean(&Numbers::seconds);
  }
  rest_row(std::to_string(items.size() - shown), std::to_string(calls), seconds);
}

// Example: "2: a, b". Of many nodes the first and the last: "64: node001 to node064".
std::string nodes_text(const std::vector<std::string>& nodes) {
  constexpr std::size_t kMostNamed = 8;
  const std::string names = nodes.size() > kMostNamed
                                ? printable(nodes.front()) + " to " + printable(nodes.back())
                                : joined(
                                      nodes, [](const std::string& node) { return printable(node); }, ", ");
  return std::to_string(nodes.size()) + ": " + names;
}

std::string head_text(const Report& report) {
  const RunInfo& info = report.info;
  const std::vector<std::string> nodes = report.nodes();
  std::string mode = printable(info.mode);
  if (info.mode == "explain")
    mode += ": nothing was changed; this is what the policy would do";
  else if (info.mode == "advise")
    mode += ": nothing was changed";
  const std::string gpu = info.gpu.empty() ? "" : "  GPU      " + printable(info.gpu) + "\n";
  return "mpi_quant " + printable(info.version) +
         ": what became of the program's calls of MPI_Allreduce and other collectives\n\n" + "  command  " +
         printable(info.command) + "\n  ranks    " + std::to_string(info.ranks) +
         (nodes.empty() ? "" : "\n  nodes    " + nodes_text(nodes)) + "\n  elapsed  " +
         fixed(info.elapsed_s, info.elapsed_s < 10 ? 3 : 1) + " s\n  MPI      " + printable(info.mpi) +
         "\n  policy   " + (info.policy.empty() ? "none" : printable(info.policy)) + "\n  mode     " + mode +
         "\n" + gpu;
}

std::string classes_table(const Report& report) {
  const bool explain = report.info.mode == "explain";
  Table table({{"communicator", kLeft},
               {"ranks"},
               {"type", kLeft},
               {"op", kLeft},
               {"bytes", kLeft},
               {"calls"},
               {"time s"},
               {"max-min"},
               {"% run"},
               {"method", kLeft},
               {outcome_column(explain), kLeft}});
  const double elapsed = report.info.elapsed_s;
  fill(
      by_time(report.classes),
      [&](const std::pair<const ClassId, Merged>& item) {
        const auto& [id, m] = item;
        const double mean = m.mean(&Numbers::seconds);
        table.row({comm_text(id), std::to_string(id.ranks), short_name(id.type), short_name(id.op),
                   bucket(id.log2_bytes), std::to_string(m.total_calls()), seconds_text(mean),
                   seconds_text(m.seconds_max - m.seconds_min), share_text(mean, elapsed),
                   printable(m.sum.method), outcome(m, explain)});
      },
      [&](const std::string& more, const std::string& calls, double seconds) {
        table.row({more + " more classes", "", "", "", "", calls, seconds_text(seconds), "",
                   share_text(seconds, elapsed), "", ""});
      });
  return table.text(
      "Classes of calls, by time (mean of the ranks; max-min: between ranks, a sign of waiting)");
}

// Example: "hit 1200, fresh 4".
std::string feedback_text(const Merged& m) {
  std::string out;
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i)
    if (m.sum.feedback[i] != 0 && static_cast<FeedbackOutcome>(i) != FeedbackOutcome::none)
      out.append(out.empty() ? "" : ", ")
          .append(name(static_cast<FeedbackOutcome>(i)))
          .append(" ")
          .append(std::to_string(m.sum.feedback[i]));
  return out.empty() ? "none" : out;
}

// What nobody should overlook: values beyond the range of a method.
std::string overflow_warning(const Report& report) {
  std::string text;
  for (const auto& [id, m] : report.classes)
    if (m.sum.overflows > 0)
      text += std::to_string(m.sum.overflows) + " finite elements were too large for " +
              printable(m.sum.method) + " on " + comm_text(id) + ", " + bucket(id.log2_bytes) +
              ": they became infinite or NaN, or wait. f16(scale=block) has room for all\n";
  return text;
}

std::string compressed_table(const Report& report) {
  std::vector<const std::pair<const ClassId, Merged>*> classes;
  for (const auto* const item : by_time(report.classes))
    if (item->second.calls[static_cast<std::size_t>(Reason::compressed)] != 0) classes.push_back(item);
  if (classes.empty()) return "";
  Table table({{"communicator", kLeft},
               {"ranks"},
               {"type", kLeft},
               {"bytes", kLeft},
               {"in"},
               {"wire"},
               {"ratio"},
               {"encode s"},
               {"decode s"},
               {"wait s"},
               {"error"},
               {"max"},
               {"feedback", kLeft}});
  fill(
      classes,
      [&](const std::pair<const ClassId, Merged>& item) {
        const ClassId& id = item.first;
        const Merged& m = item.second;
        const auto error = [&](double value) {
          return m.sum.guarded == 0 ? "-" : text_of(value, std::chars_format::scientific, 1);
        };
        const auto wire = static_cast<double>(m.sum.wire_bytes);
        table.row({comm_text(id), std::to_string(id.ranks), short_name(id.type), bucket(id.log2_bytes),
                   amount(m.sum.compressed_bytes), amount(m.sum.wire_bytes),
                   wire > 0 ? fixed(static_cast<double>(m.sum.compressed_bytes) / wire, 1) : "-",
                   seconds_text(m.mean(&Numbers::encode_s)), seconds_text(m.mean(&Numbers::decode_s)),
                   seconds_text(m.mean(&Numbers::wait_s)), error(m.guard_error_mean()),
                   error(m.sum.guard_error_max), feedback_text(m)});
      },
      [&](const std::string& more, const std::string&, double) { table.row({more + " more classes"}); });
  return table.text(
             "Compressed classes (in: the vectors of all ranks; wire: sent by all ranks; error: relative L2, "
             "where guarded)") +
         feedback_legend(report) + overflow_warning(report);
}

std::string sites_table(const Report& report) {
  if (report.sites.empty()) return "";
  const bool explain = report.info.mode == "explain";
  Table table({{"call site", kLeft},
               {"calls"},
               {"time s"},
               {"% run"},
               {"method", kLeft},
               {outcome_column(explain), kLeft}});
  const double elapsed = report.info.elapsed_s;
  fill(
      by_time(report.sites),
      [&](const std::pair<const std::string, Merged>& item) {
        const auto& [site, m] = item;
        const double mean = m.mean(&Numbers::seconds);
        table.row({ending(printable(site), kSiteWidth), std::to_string(m.total_calls()), seconds_text(mean),
                   share_text(mean, elapsed), printable(m.sum.method), outcome(m, explain)});
      },
      [&](const std::string& more, const std::string& calls, double seconds) {
        table.row({more + " more call sites", calls, seconds_text(seconds), share_text(seconds, elapsed)});
      });
  return table.text("Call sites of calls that could be compressed");
}

// What auto chose for each class of calls, and what that brought.
std::string choices_table(const Report& report) {
  if (report.info.choices.empty()) return "";
  Table table({{"collective", kLeft},
               {"bytes"},
               {"type", kLeft},
               {"ranks"},
               {"asked", kLeft},
               {"calls"},
               {"by codecs"},
               {"saved s"},
               {"tries s"},
               {"time ms"},
               {"MPI ms"},
               {"tried"},
               {"over limit"},
               {"judged"},
               {"worst error"},
               {"fastest", kLeft}});
  const auto ms = [](double seconds) { return seconds > 0 ? short_number(1e3 * seconds) : "?"; };
  for (const auto& [known, totals, counts] : report.info.choices) {
    Method asked;
    asked.automatic = known.calls.limit;
    const int vectors = known.calls.vectors;
    table.row({std::string(name(known.calls.collective)) +
                   (vectors > 0 ? " of about " + std::to_string(vectors) + " vectors" : ""),
               amount(known.calls.bytes), std::string(kernels::name(known.calls.element)),
               std::to_string(known.calls.ranks), to_string(asked), std::to_string(totals.calls),
               std::to_string(totals.compressed), seconds_text(totals.saved_s),
               seconds_text(totals.explored_s), ms(known.seconds), ms(known.dense_s),
               std::to_string(counts.tried) + " of " + std::to_string(counts.methods),
               std::to_string(counts.over_limit), std::to_string(totals.judgements),
               totals.judgements > 0 ? short_number(totals.worst_error) : "-", to_string(known.method)});
  }
  return table.text(
      "What auto chose (saved: against MPI's own calls; tries: what finding out took; tried, over limit: of "
      "its methods)");
}

std::string reasons_table(const Report& report) {
  const Counts calls = report.calls();
  double all = 0;
  for (const std::uint64_t n : calls) all += static_cast<double>(n);
  Table table({{"calls"}, {"%"}, {"outcome", kLeft}});
  for (const auto& [reason, n] : by_calls(calls))
    table.row({std::to_string(n), share_text(static_cast<double>(n), all), std::string(words(reason))});
  return table.text("What became of all calls");
}

// The warnings of all classes that have one, sorted by time.
std::string warnings_text(const Report& report) {
  std::string out;
  for (const auto* const item : by_time(report.classes))
    if (const Warning warning = feedback_warning(item->second); !warning.what.empty())
      out += "Warning: " + comm_text(item->first) + ", " + std::to_string(item->first.ranks) + " ranks, " +
             short_name(item->first.type) + ", " + bucket(item->first.log2_bytes) + " bytes:\n  " +
             warning.what + "\n  " + warning.remedy + "\n";
  return out.empty() ? out : out + "\n";
}

}  // namespace

std::string to_table(const Report& report) {
  std::string out = head_text(report);
  if (report.classes.empty())
    out += "\nThe program made no calls that this library saw.\n";
  else
    out += classes_table(report) + compressed_table(report) + sites_table(report) + choices_table(report) +
           reasons_table(report);
  const RankInfo memory = report.largest();
  out += "\nPeak memory of a rank: process " + amount(memory.peak_rss_bytes) + ", mpi_quant's scratch " +
         amount(memory.scratch_bytes) + ", residuals " + amount(memory.residual_bytes) + "\n\n";
  const std::uint64_t lossy = report.lossy_calls();
  return out + wrongs_text(report) + warnings_text(report) +
         (lossy == 0 ? "No result delivered to the program was lossy.\n"
                     : std::to_string(lossy) + " results delivered to the program were lossy.\n");
}

}  // namespace mq
