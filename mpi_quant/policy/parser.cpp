// The parser of the control language. It is one cursor over the text. Every error names what was found and
// where, counting characters from 1. Numbers are read by std::from_chars, whose result no locale changes.
// long on purpose: one grammar, read in one piece

#include "mpi_quant/policy/policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/policy/parameters.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Text of the user for a message: shortened, and without control characters that a terminal would obey.
std::string quoted(std::string_view word) {
  constexpr std::size_t kLongest = 40;
  std::string out = "\"";
  for (const char c : word.substr(0, kLongest)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (word.size() > kLongest ? "...\"" : "\"");
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Status policy(std::vector<Rule>& rules) {
    skip();
    if (at_end()) return {};
    do {
      rules.emplace_back();
      MQ_TRY(rule(rules.back()));
    } while (take(';'));
    MQ_TRY(end());
    const auto chooses = [](const Rule& r) { return r.method.chooses(); };
    const auto by_site = [](const Rule& r) { return !r.site.empty(); };
    if (std::any_of(rules.begin(), rules.end(), chooses) && std::any_of(rules.begin(), rules.end(), by_site))
      return error(0, "auto and site= in one policy",
                   "ranks may call from different sites, and auto must choose "
                   "alike on all of them");
    return {};
  }

  Status method(Method& out) {
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name == kExact) {
      if (const char c = peek(); c == '(' || c == '/')
        return error(at_, "mpi takes no parameters and no plan");
      return {};
    }
    if (name == kAuto) return automatic(out.automatic);
    if (const Scheme* const found = find_scheme(name)) return scheme(*found, out);
    out.codec = kernels::find_codec(name);
    if (out.codec == nullptr) {
      if (name.empty()) return expected("a method");
      return error(start, "unknown codec " + quoted(name), "known: " + known_methods());
    }
    out.params = kernels::preset_params(*out.codec);
    if (take('(')) MQ_TRY(params(name, out.codec->specs, out.params));
    if (const std::string_view conflict = out.codec->conflict(out.params); !conflict.empty())
      return error(start, std::string(name) + ": " + std::string(conflict));
    if (take('/')) MQ_TRY(plan(out));
    return take_word(kMemory) ? memory(out) : Status{};
  }

  Status end() {
    skip();
    return at_end() ? Status{} : error(at_, "unexpected " + quoted(rest()));
  }

  // A decimal number and an optional suffix, without spaces between them.
  Status size(std::uint64_t& out) {
    const std::size_t start = skip();
    const auto [stop, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (problem == std::errc::invalid_argument) return expected("a size");
    at_ = static_cast<std::size_t>(stop - text_.data());
    unsigned shift = 0;
    if (!at_end() && is_letter(text_[at_])) {
      const std::size_t suffix_at = at_;
      const std::string_view suffix = word();
      shift = suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : 0;
      if (shift == 0) return error(suffix_at, "unknown suffix " + quoted(suffix), "known: K, M, G");
    }
    if (problem == std::errc::result_out_of_range || out > kNoEnd >> shift)
      return error(start, quoted(text_.substr(start, at_ - start)) + " does not fit in 64 bits");
    out <<= shift;
    return {};
  }

 private:
  struct Range {
    std::optional<std::uint64_t> first, last;
    bool single = false;  // N, not N-
    std::size_t at = 0;
  };

  Status rule(Rule& out) {
    if (skip() == text_.size() || peek() == ';') return expected("a rule");
    const auto* const first =
        std::find_if(kCollectives.begin(), kCollectives.end(), [&](auto c) { return take_word(name(c)); });
    if (first != kCollectives.end()) out.collective = *first;
    Range bytes;
    if (const char c = peek(); is_digit(c) || c == '-')
      MQ_TRY(half_open("bytes", bytes, out.bytes_min, out.bytes_end));
    if (take('@')) MQ_TRY(ranks(out));
    while (is_letter(peek())) MQ_TRY(selector(out));
    if (!take(':')) return expected("':' between selectors and method");
    MQ_TRY(not_alone(bytes));
    if (out.small && out.bytes_min < kSmallFloorBytes)
      return error(
          at_, "a rule that says small must name a lower bound of at least " + size_text(kSmallFloorBytes),
          "\"4K-64K small: ...\"; scalars, norms and flags are below");
    const std::size_t start = skip();
    MQ_TRY(method(out.method));
    out.safeguards.feedback = usual_identity(out.method);
    unsigned given = 0;
    while (is_letter(peek())) MQ_TRY(option(out, given));
    if (out.safeguards.error != 0 && out.safeguards.guard == 0) return expected("guard=N beside error=");
    if (const std::string unfit = unfit_for(out.collective, out.method); !unfit.empty())
      return error(start, unfit);
    return fits_memory(out, start);
  }

  // A guard compares results with sums, and a rule other than carry needs feedback.
  Status fits_memory(const Rule& out, std::size_t start) const {
    if (!adds(out.collective) && out.safeguards.guard != 0)
      return error(start, "guard= in a rule for " + std::string(name(out.collective)), "it compares sums");
    if (out.method.automatic.kind == Automatic::Kind::feedback && out.safeguards.feedback == Identity::off)
      return error(start, "feedback=off beside auto(error=feedback)", "it chooses methods with feedback");
    if (out.method.memory == nullptr) return {};
    const kernels::MemoryRule& rule = *out.method.memory;
    if (!rule.keeps_sums && out.safeguards.guard != 0)
      return error(start, "guard= beside memory=" + std::string(rule.name),
                   "its results are not the sums of the vectors");
    if (rule.arrays > 0 && out.safeguards.feedback == Identity::off)
      return error(start, "feedback=off beside memory=" + std::string(rule.name),
                   "it keeps arrays from call to call");
    return {};
  }

  // feedback=..., guard=..., error=... or seed=...; `given` has a bit for each and finds repetitions.
  Status option(Rule& out, unsigned& given) {
    const std::size_t start = skip();
    const std::string_view name = word();
    constexpr std::array<std::string_view, 4> known{"feedback", "guard", "error", "seed"};
    const auto at = static_cast<unsigned>(std::find(known.begin(), known.end(), name) - known.begin());
    if (name == kMemory)
      return error(start, out.method.exact()     ? "mpi sums exactly, and takes no memory rule"
                          : out.method.chooses() ? "auto chooses the memory rule, and takes none"
                          : out.method.memory    ? "memory given twice"
                                                 : "memory= stands before other options");
    if (at == known.size())
      return error(start, "unknown option " + quoted(name),
                   "known: feedback=off|key|address|sequence, guard=N, error=X, seed=S");
    if (out.method.exact()) return error(start, "mpi takes no options");
    if (out.method.chooses() && (name == "guard" || name == "error"))
      return error(start, "auto judges its results itself, and takes no " + std::string(name) + "=",
                   "auto(error=X) names the limit");
    if (out.method.chooses() && name == "feedback" && out.method.automatic.kind != Automatic::Kind::feedback)
      return error(start, "this auto keeps nothing from call to call, and takes no feedback=",
                   "auto(error=feedback) does");
    if ((given & (1u << at)) != 0) return error(start, "option " + quoted(name) + " given twice");
    given |= 1u << at;
    if (!take('=')) return expected("'='");
    if (name == "guard") return counted(out.safeguards.guard);
    if (name == "seed") return seed(out.seed.emplace());
    return name == "error" ? budget(out.safeguards.error) : identity(out.safeguards.feedback);
  }

  Status counted(std::uint64_t& out) {
    const std::size_t start = skip();
    MQ_TRY(size(out));
    return out > 0 ? Status{} : error(start, "guard=0 compares nothing");
  }

  Status seed(std::uint64_t& out) {
    const std::size_t start = skip();
    const std::string_view text = value();
    if (parse_seed(text, out)) return {};
    return error(start, "bad value " + quoted(text), "seed: a whole number from 0 to 2^64 - 1");
  }

  Status budget(double& out) {
    const std::size_t start = skip();
    const std::string_view text = value();
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (problem == std::errc{} && end == text.data() + text.size() && std::isfinite(out) && out > 0)
      return {};
    return error(start, "bad value " + quoted(text), "error: a relative error, more than 0");
  }

  Status identity(Identity& out) {
    const std::size_t start = skip();
    const std::string_view text = word();
    const auto at = std::find(kIdentities.begin(), kIdentities.end(), text);
    if (at == kIdentities.end())
      return error(start, "bad value " + quoted(text), "feedback: off|key|address|sequence");
    out = static_cast<Identity>(at - kIdentities.begin());
    return {};
  }

  // A size alone would match vectors of exactly this many bytes. Who writes "1M" means "1M and more".
  Status not_alone(const Range& bytes) const {
    if (!bytes.single) return {};
    return error(bytes.at, "a rule for exactly " + std::to_string(*bytes.first) + " bytes",
                 "write " + quoted(size_range_text(*bytes.first, kNoEnd)) + " for that and more, " +
                     quoted(size_range_text(*bytes.first, *bytes.first + 1)) + " for exactly that");
  }

  // N, N-, -N or N-M into [min, end).
  Status half_open(const std::string& what, Range& r, std::uint64_t& min, std::uint64_t& end) {
    MQ_TRY(range(r));
    min = r.first.value_or(0);
    if (r.last) end = *r.last;
    if (r.single && min < kNoEnd) end = min + 1;
    if (min >= end) return error(r.at, "empty range of " + what, "the upper end is excluded");
    return {};
  }

  Status ranks(Rule& out) {
    Range r;
    MQ_TRY(range(r));
    if (r.single) r.last = r.first;
    const std::uint64_t first = r.first.value_or(1), last = r.last.value_or(kNoMax);
    if (first == 0) return error(r.at, "rank counts start at 1");
    if (first > kNoMax || last > kNoMax) return error(r.at, "rank count beyond " + std::to_string(kNoMax));
    if (first > last) return error(r.at, "empty range of ranks");
    out.ranks_min = static_cast<int>(first);
    out.ranks_max = static_cast<int>(last);
    return {};
  }

  Status range(Range& out) {
    out.at = skip();
    if (is_digit(peek())) MQ_TRY(size(out.first.emplace()));
    out.single = !take('-');
    if (!out.single && is_digit(peek())) MQ_TRY(size(out.last.emplace()));
    return out.first || out.last ? Status{} : expected("a number");
  }

  // element, calls=..., comm=..., site=... or small
  Status selector(Rule& out) {
    const std::size_t start = skip();
    const std::string_view name = word();
    const auto twice = [&] { return error(start, "selector " + quoted(name) + " given twice"); };
    if (name == "calls") {
      if (out.calls_min != 0 || out.calls_end != kNoEnd) return twice();
      Range calls;
      return take('=') ? half_open("calls", calls, out.calls_min, out.calls_end) : expected("'='");
    }
    if (name == "comm" || name == "site") {
      std::string& pattern = name == "comm" ? out.comm : out.site;
      if (!pattern.empty()) return twice();
      return take('=') ? glob(pattern) : expected("'='");
    }
    if (name == "small") {
      if (out.small) return twice();
      out.small = true;
      return {};
    }
    for (const kernels::Element e : kernels::kElements)
      if (kernels::name(e) == name) {
        if (out.element >= 0) return error(start, "a second element type");
        out.element = static_cast<int>(e);
        return {};
      }
    if (name == kExact || name == kAuto || kernels::find_codec(name) != nullptr ||
        find_scheme(name) != nullptr)
      return error(start, "expected ':' before the method " + quoted(name), "a rule is 'selectors: method'");
    if (std::any_of(kCollectives.begin(), kCollectives.end(), [&](auto c) { return mq::name(c) == name; }))
      return error(start, "a second collective, or one behind other selectors", "it stands first");
    return error(start, "unknown selector " + quoted(name),
                 "known: " +
                     joined(
                         kernels::kElements, [](auto e) { return kernels::name(e); }, ", ") +
                     ", calls=N-M, comm=NAME, site=NAME, small");
  }

  Status glob(std::string& out) {
    skip();
    out = run([](char c) { return c > ' ' && c <= '~' && c != ':' && c != ';'; });
    return out.empty() ? expected("a name") : Status{};
  }

  // The parameters of a codec or of a memory rule, after the '('.
  Status params(std::string_view owner, std::span<const kernels::ParamSpec> specs, kernels::Params& out) {
    std::array<bool, kernels::kMaxParams> given{};
    do {
      const std::size_t start = skip();
      const std::string_view name = word();
      const auto spec =
          std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.name == name; });
      if (name.empty()) return expected("a parameter name");
      if (spec == specs.end())
        return error(start, "unknown parameter " + quoted(name), known_params(owner, specs));
      const auto i = static_cast<std::size_t>(spec - specs.begin());
      if (given[i]) return error(start, "parameter " + quoted(name) + " given twice");
      given[i] = true;
      if (!take('=')) return expected("'='");
      const std::size_t value_at = skip();
      const std::string_view text = value();
      const std::optional<double> read = read_value(*spec, text);
      if (!read) return error(value_at, "bad value " + quoted(text), describe(*spec));
      out.value[i] = *read;
    } while (take(','));
    const std::size_t stop = skip();
    if (!take(')'))
      return at_end() ? error(at_, "expected ',' or ')', found the end", kCut) : expected("',' or ')'");
    const std::string conflict = conflict_of_written(specs, given, out);
    return conflict.empty() ? Status{} : error(stop, std::string(owner) + ": " + conflict);
  }

  Status scheme(const Scheme& found, Method& out) {
    out.scheme = &found;
    out.scheme_params = preset_params(found);
    out.codec = kernels::find_codec("raw");
    out.params = kernels::preset_params(*out.codec);
    if (take('(')) MQ_TRY(params(found.name, found.specs, out.scheme_params));
    if (take('/')) MQ_TRY(plan(out));
    const std::size_t after = skip();
    return take_word(kMemory)
               ? error(after, std::string(found.name) + " has feedback of its own, and takes no memory rule")
               : Status{};
  }

  // What may follow "auto": (error=0.01), (error=abs:1e-6), (error=feedback) or (error=feedback:8).
  Status automatic(Automatic& out) {
    out = {Automatic::Kind::relative, 0};
    if (const char c = peek(); c == '/') return error(at_, "auto chooses its plan, and takes none");
    if (!take('(')) return {};
    if (!take_word("error")) return expected("error=");
    if (!take('=')) return expected("'='");
    const std::size_t start = skip();
    std::string_view text = run([](char c) { return c > ' ' && c <= '~' && c != ')' && c != ';'; });
    const std::string_view all = text;
    double least = 0;
    if (text.starts_with(kFeedback)) {
      text.remove_prefix(kFeedback.size());
      out = {Automatic::Kind::feedback, kUsualDebt};
      if (text.empty()) return take(')') ? Status{} : expected("')'");
      text = text.starts_with(':') ? text.substr(1) : "";
    } else if (text.starts_with(kAbsolute)) {
      text.remove_prefix(kAbsolute.size());
      out.kind = Automatic::Kind::absolute;
      least = kernels::find_codec("bound")->specs[0].min;
    }
    const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), out.value);
    const bool is_number = problem == std::errc{} && stop == text.data() + text.size();
    constexpr double kMost = 1e18;
    if (!is_number || !(out.value >= least) || !(out.value <= kMost) ||
        (out.kind == Automatic::Kind::feedback && out.value == 0))
      return error(
          start, "bad value " + quoted(all),
          "error: a relative error such as 0.01, 0 for lossless methods, abs:1e-6 for each element, or "
          "feedback[:VECTORS]");
    return take(')') ? Status{} : expected("')'");
  }

  Status plan(Method& out) {
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name.empty()) return expected("a plan");
    out.plan = find_plan(name);
    if (out.plan != nullptr) return {};
    return error(start, "unknown plan " + quoted(name),
                 "known: " + joined(
                                 plans(), [](const auto& p) { return p.name; }, ", "));
  }

  // The rule of a method, after "memory".
  Status memory(Method& out) {
    if (!take('=')) return expected("'='");
    const std::size_t start = skip();
    const std::string_view name = word();
    if (name.empty()) return expected("a memory rule");
    const kernels::MemoryRule* const rule = kernels::find_memory_rule(name);
    if (rule == nullptr)
      return error(start, "unknown memory rule " + quoted(name),
                   "known: " + joined(
                                   kernels::memory_rules(), [](const auto& r) { return r.name; }, ", "));
    out.memory_params = kernels::preset_params(*rule);
    if (take('(')) MQ_TRY(params(name, rule->specs, out.memory_params));
    out.memory = rule == &kernels::carry_rule() ? nullptr : rule;
    if (rule->terms(out.memory_params).needs_unbiased && !out.codec->unbiased(out.params))
      return error(start, quoted(name) + " with these parameters needs an unbiased codec",
                   "qsgd, natural, or round=stochastic");
    if (rule->keeps_estimates && !out.codec->contraction(out.params))
      return error(start,
                   quoted(name) +
                       " needs a contraction: E|C(x) - x|^2 <= (1 - a) |x|^2 with 0 < a <= 1, and " +
                       std::string(out.codec->name) + " with these parameters is none",
                   "topk, onebit, natural and others are; of qsgd more bits or shorter blocks");
    return {};
  }

  bool at_end() const { return at_ == text_.size(); }
  std::size_t skip() {
    while (!at_end() && is_space(text_[at_])) ++at_;
    return at_;
  }
  char peek() { return skip() < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    const bool found = skip() < text_.size() && text_[at_] == c;
    at_ += found;
    return found;
  }
  // Takes a word if it is this one.
  bool take_word(std::string_view wanted) {
    const std::size_t start = skip();
    if (word() == wanted) return true;
    at_ = start;
    return false;
  }
  template <class Belongs>
  std::string_view run(Belongs belongs) {
    const std::size_t start = at_;
    while (!at_end() && belongs(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string_view word() {
    return run([](char c) { return is_letter(c) || is_digit(c); });
  }
  std::string_view value() {
    return run([](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '+'; });
  }
  std::string_view rest() const { return text_.substr(at_); }

  static constexpr const char* kCut =
      "cut at a comma on its way here? MPIQ_POLICY_FILE names a file of rules";
  Status expected(const std::string& thing) {
    skip();
    return error(at_, "expected " + thing + (at_end() ? ", found the end" : ", found " + quoted(rest())));
  }
  Status error(std::size_t at, const std::string& what, const std::string& help = "") const {
    return {Code::bad_policy, std::string(what_) + ": " + what + " at character " + std::to_string(at + 1) +
                                  (help.empty() ? "" : " (" + help + ")")};
  }

  std::string_view text_, what_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Method> parse_method(std::string_view text) {
  Method method;
  Parser parser(text, "method");
  MQ_TRY(parser.method(method));
  MQ_TRY(parser.end());
  return method;
}

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t size = 0;
  Parser parser(text, "size");
  MQ_TRY(parser.size(size));
  MQ_TRY(parser.end());
  return size;
}

Result<Policy> Policy::parse(std::string_view text) {
  Policy policy;
  MQ_TRY(Parser(text, "policy").policy(policy.rules_));
  return policy;
}

}  // namespace mq
