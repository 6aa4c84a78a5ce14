#include "mpi_quant/automatic/knowledge.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

constexpr std::string_view kSeconds = " seconds=", kMpi = " mpi=", kMargin = " margin=", kCalls = " calls=",
                           kNodes = "nodes=", kVectors = "vectors=";

template <class T>
bool read_number(std::string_view text, T& out) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  return problem == std::errc{} && end == text.data() + text.size();
}

// Takes the text before the separator off.
std::string_view take(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + separator.size());
  return taken;
}

std::string_view trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view{} : line.substr(first, last - first + 1);
}

// Reads "vectors=20", if it is there. Returns the word that is wrong, or nothing.
std::optional<std::string_view> parse_vectors(std::string_view& rest, CallClass& out) {
  if (!rest.starts_with(kVectors)) return {};
  const std::string_view word = take(rest, " ");
  const bool is_number = read_number(word.substr(kVectors.size()), out.vectors) && out.vectors > 0;
  return is_number && out.collective == Collective::allreduce ? std::optional<std::string_view>{} : word;
}

// Reads the ranks and nodes of a line: "@16", or "@16 nodes=2". Returns the word that is wrong, or nothing.
std::optional<std::string_view> parse_ranks(std::string_view& rest, CallClass& out) {
  constexpr int kMostRanks = 1 << 24;
  const std::string_view ranks = take(rest, " ");
  if (!ranks.starts_with('@') || !read_number(ranks.substr(1), out.ranks) || out.ranks < 2 ||
      out.ranks > kMostRanks)
    return ranks;
  if (!rest.starts_with(kNodes)) return {};
  const std::string_view word = take(rest, " ");
  int nodes = 0;
  if (out.collective != Collective::allreduce) return word;
  if (!read_number(word.substr(kNodes.size()), nodes) || nodes < 1 || out.ranks % nodes != 0) return word;
  out.per_node = nodes == 1 ? 1 : out.ranks / nodes;
  return {};
}

// Nothing if the line is sound, else the word that is not. cannot_keep: it is the method, which is sound but
// cannot keep the limit.
std::optional<std::string_view> parse_line(std::string_view line, KnownClass& out, bool& cannot_keep) {
  std::string_view rest = line;
  const std::string_view first = rest.substr(0, rest.find(' '));
  for (const Collective each : kCollectives)
    if (first == name(each)) {
      out.calls.collective = each;
      (void)take(rest, " ");
    }
  const std::string_view bytes = take(rest, " "), element = take(rest, " ");
  constexpr std::size_t kMostBytes = std::size_t{1} << 60;
  if (!read_number(bytes, out.calls.bytes) || out.calls.bytes == 0 || out.calls.bytes > kMostBytes)
    return bytes;
  bool is_known = false;
  for (const kernels::Element e : kernels::kElements)
    if (kernels::name(e) == element) {
      out.calls.element = e;
      is_known = true;
    }
  if (!is_known) return element;
  if (const auto wrong = parse_ranks(rest, out.calls)) return wrong;
  if (const auto wrong = parse_vectors(rest, out.calls)) return wrong;
  const std::string_view limit = take(rest, ": "), method = take(rest, kSeconds), seconds = take(rest, kMpi),
                         dense = take(rest, kMargin), margin = take(rest, kCalls), calls = rest;
  const Result<Method> asked = parse_method(limit), found = parse_method(method);
  if (!asked.ok() || !asked->chooses() || !unfit_for(out.calls.collective, *asked).empty()) return limit;
  if (!found.ok() || found->chooses()) return method;
  out.calls.limit = asked->automatic;
  out.method = *found;
  const auto is_time = [](double s) { return std::isfinite(s) && s >= 0; };
  if (!read_number(seconds, out.seconds) || !is_time(out.seconds)) return seconds;
  if (!read_number(dense, out.dense_s) || !is_time(out.dense_s)) return dense;
  if (!read_number(margin, out.margin) || !is_time(out.margin) || out.margin < 1) return margin;
  if (!read_number(calls, out.learnt_from)) return calls;
  // Half types are summed by their own codec, whatever a line says.
  const bool is_half = kernels::element_bytes(out.calls.element) < sizeof(float);
  cannot_keep =
      !is_half && !out.method.exact() && !candidate_for(out.calls, candidates_of(out.calls), out.method);
  if (cannot_keep) return method;
  return {};
}

std::string complaint(std::string_view word, bool cannot_keep) {
  constexpr std::size_t kMostShown = 32;
  std::string shown(word.substr(0, kMostShown));
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';  // of a file that is no text
  if (cannot_keep) return "auto cannot keep this limit with \"" + shown + "\"";
  return (shown.empty() ? "a word is missing" : "bad word \"" + shown + "\"") +
         " (a line is [COLLECTIVE] BYTES TYPE @RANKS [nodes=N] [vectors=N] auto(...): METHOD seconds=S mpi=S margin=M "
         "calls=N; nodes= and vectors= are for allreduce)";
}

}  // namespace

Result<std::vector<KnownClass>> parse_knowledge(std::string_view text) {
  std::vector<KnownClass> all;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(take(text, "\n"));
    if (line.empty()) continue;
    KnownClass known;
    bool cannot_keep = false;
    if (const std::optional<std::string_view> wrong = parse_line(line, known, cannot_keep))
      return Status{Code::bad_policy,
                    "MPIQ_KNOWLEDGE, line " + std::to_string(number) + ": " + complaint(*wrong, cannot_keep)};
    all.push_back(std::move(known));
  }
  return all;
}

std::string to_string(const KnownClass& known) {
  Method asked;
  asked.automatic = known.calls.limit;
  const CallClass& calls = known.calls;
  std::string line =
      calls.collective == Collective::allreduce ? "" : std::string(name(calls.collective)) + " ";
  line += std::to_string(calls.bytes) + " " + std::string(kernels::name(calls.element)) + " @" +
          std::to_string(calls.ranks) + " ";
  if (calls.per_node > 1) line.append(kNodes) += std::to_string(calls.ranks / calls.per_node) + " ";
  if (calls.vectors > 0) line.append(kVectors) += std::to_string(calls.vectors) + " ";
  line += to_string(asked) + ": " + to_string(known.method);
  line.append(kSeconds).append(number(known.seconds)).append(kMpi).append(number(known.dense_s));
  return line.append(kMargin).append(number(known.margin)).append(kCalls) + std::to_string(known.learnt_from);
}

namespace {

// The line with the nearest size among those with this number of ranks on a node, or null.
const KnownClass* nearest_size(const std::vector<KnownClass>& all, const CallClass& calls, int per_node) {
  constexpr double kFarthest = 4;
  const KnownClass* nearest = nullptr;
  double least = kFarthest * kFarthest;
  const auto apart = [](auto x, auto y) {
    const double a = static_cast<double>(x), b = static_cast<double>(y);
    return a < b ? b / a : a / b;
  };
  for (const KnownClass& known : all) {
    const CallClass& c = known.calls;
    if (c.collective != calls.collective || c.element != calls.element || c.ranks != calls.ranks ||
        c.limit != calls.limit || c.per_node != per_node)
      continue;
    if ((c.vectors == 0) != (calls.vectors == 0)) continue;
    const double by_bytes = apart(c.bytes, calls.bytes);
    const double by_vectors = c.vectors == 0 ? 1 : apart(c.vectors, calls.vectors);
    if (by_bytes > kFarthest || by_vectors > kFarthest || by_bytes * by_vectors > least) continue;
    least = by_bytes * by_vectors;
    nearest = &known;
  }
  return nearest;
}

}  // namespace

const KnownClass* find_known(const std::vector<KnownClass>& all, const CallClass& calls) {
  const KnownClass* const same_nodes = nearest_size(all, calls, calls.per_node);
  return same_nodes != nullptr || calls.per_node == 1 ? same_nodes : nearest_size(all, calls, 1);
}

}  // namespace mq
