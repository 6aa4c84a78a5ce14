#include "mpi_quant/advisor/advice.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "mpi_quant/advisor/predict.hpp"
#include "mpi_quant/plan/losses.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

constexpr int kFloorLog2 = 16;  // 64 KiB: nothing below is compressed unless a rule says "small"

std::uint64_t calls_of(const Numbers& numbers) {
  std::uint64_t sum = 0;
  for (const std::uint64_t n : numbers.calls) sum += n;
  return sum;
}

// The means of the ranks that made calls of this class.
void add_times(std::span<const Record> records, ClassAdvice& advice) {
  double bytes = 0, calls = 0, ranks = 0;
  for (const Record& record : records) {
    const auto found = record.classes.find(advice.id);
    if (found == record.classes.end() || calls_of(found->second) == 0) continue;
    const Numbers& numbers = found->second;
    const double own = static_cast<double>(calls_of(numbers)), seconds = numbers.seconds / own;
    advice.calls = std::max(advice.calls, calls_of(numbers));
    bytes += static_cast<double>(numbers.bytes);
    calls += own;
    advice.min_s = ranks == 0 ? seconds : std::min(advice.min_s, seconds);
    advice.max_s = std::max(advice.max_s, seconds);
    advice.mean_s += seconds;
    ++ranks;
  }
  if (calls > 0) advice.bytes = bytes / calls;
  if (ranks > 0) advice.mean_s /= ranks;
}

// ClassAdvice::exact_s. The exact call of this collective that was tried corrects the model.
double exact_seconds(const ClassAdvice& advice, std::span<const Validation> checks) {
  if (!has_root(advice.collective) || !advice.dense_s) return advice.min_s;
  double model_s = *advice.dense_s;
  for (const Validation& check : checks)
    if (check.method == kExact && collective_of(check.of) == advice.collective && check.predicted_s > 0 &&
        check.measured_s > 0)
      model_s *= check.measured_s / check.predicted_s;
  return std::clamp(model_s, advice.min_s, advice.max_s);
}

double rate(double sum, std::uint64_t n) { return n > 0 ? sum / static_cast<double>(n) : 0; }

// The check of a method with the calls of a class; null if there is none.
const Validation* check_of(std::string_view method, const ClassId& id, std::span<const Validation> checks) {
  for (const Validation& check : checks)
    if (check.method == method && check.of == id && check.measured_s > 0) return &check;
  return nullptr;
}

// What the checks say against the model's times of a method that was not tried with the calls of this class.
Doubt doubt_of(std::string_view method, const ClassAdvice& advice, std::span<const Validation> checks) {
  if (!advice.dense_s || misses(*advice.dense_s, advice.exact_s)) return Doubt::model;
  for (const Validation& check : checks)
    if (check.method == method && collective_of(check.of) == advice.collective &&
        misses(check.predicted_s, check.measured_s))
      return Doubt::check;
  const Validation* const exact = check_of(kExact, advice.id, checks);
  return exact != nullptr && misses(exact->predicted_s, exact->measured_s) ? Doubt::model : Doubt::none;
}

// True if a call was far faster than the model allows, where the model is right about the exact call. A link
// that lets short bursts through does that, and a longer run will not see it.
bool too_good(const Validation& own, const Validation& exact) {
  return own.measured_s * kMostMiss < own.predicted_s && !misses(exact.predicted_s, exact.measured_s);
}

// Where a method and the exact call were both tried with the calls of this class, their times decide. Else
// the model does, if no check speaks against it.
void judge(MethodAdvice& method, const ClassAdvice& advice, std::span<const Validation> checks) {
  const Validation* const own = check_of(method.method, advice.id, checks);
  const Validation* const exact = check_of(kExact, advice.id, checks);
  if (own != nullptr && exact != nullptr && !too_good(*own, *exact)) {
    method.measured_s = own->measured_s;
    const double speedup = exact->measured_s / own->measured_s;
    if (speedup > kLeastSpeedup)
      method.speedup = speedup;
    else
      method.doubt = Doubt::slower;
    return;
  }
  method.doubt = doubt_of(method.method, advice, checks);
  if (method.doubt == Doubt::none && *method.predicted_s > 0)
    method.speedup = advice.exact_s / *method.predicted_s;
}

void add_method(const Candidate& candidate, const MethodSums& of, double memory_s, const Evidence& evidence,
                ClassAdvice& advice) {
  const Method& tried = candidate.method;
  const Ranks ranks{.size = advice.id.ranks, .encodes_own = tried.codec->exact_sums};
  const std::size_t size = kernels::element_bytes(advice.element);
  const auto count = static_cast<std::size_t>(advice.bytes) / size;
  const PlanRow* const own =
      plan_of(advice.collective, tried.codec->wire_bound(count, advice.element, tried.params), ranks.size);
  const PlanRow& plan =
      own != nullptr ? *own : choose_plan(static_cast<std::uint64_t>(advice.bytes), ranks.size);
  const int summands = adds(advice.collective) ? ranks.size : 1;
  MethodAdvice method;
  method.method = candidate.text;
  method.bytes_per_element = rate(static_cast<double>(of.input.wire_bytes), of.input.elements);
  method.error = estimated_error(of, summands, losses_of(plan, ranks));
  advice.resemblance = std::max(advice.resemblance, resemblance(of, summands));
  if (evidence.link) {
    const ElementTimes times{rate(of.input.encode_s, of.input.elements),
                             rate(of.input.decode_s, of.input.elements),
                             rate(of.input.measure_s, of.input.elements), memory_s};
    const CallShape call{ranks,
                         count,
                         size,
                         tried.codec->block(tried.params),
                         tried.codec->whole(tried.params),
                         method.bytes_per_element};
    method.predicted_s = predict(advice.collective, call, times, *evidence.link);
    judge(method, advice, evidence.validations);
  }
  advice.methods.push_back(method);
}

void add_methods(const ClassSums& sums, const Evidence& evidence, ClassAdvice& advice) {
  if (evidence.link)
    advice.dense_s = predict_dense(advice.collective, advice.bytes, advice.id.ranks, *evidence.link);
  advice.exact_s = exact_seconds(advice, evidence.validations);
  const double memory_s = rate(sums.memory_s, static_cast<std::uint64_t>(sums.ranks));
  for (std::size_t c = 0; c < sums.methods.size(); ++c)
    if (sums.methods[c].input.elements > 0)
      add_method(candidates()[c], sums.methods[c], memory_s, evidence, advice);
}

bool could_be_served(const ClassId& id, const Numbers* numbers) {
  if (id.ranks < 2 || id.log2_bytes < kFloorLog2) return false;
  return numbers == nullptr || numbers->calls[static_cast<std::size_t>(Reason::would_be_compressed)] > 0;
}

// The method that a rule for this class may name; null if there is none. It is the fastest method. Among
// methods that take about as long, the one with the smallest error is chosen. If some of them were tried,
// only those count: a prediction is less than a measurement.
const MethodAdvice* best_of(const ClassAdvice& advice, double limit, bool with_feedback) {
  constexpr double kAboutAsLong = 1.25;
  const auto may = [&](const MethodAdvice& m) {
    return m.fast() && (m.within(limit) || (with_feedback && advice.bears_feedback()));
  };
  const bool any_tried = std::any_of(advice.methods.begin(), advice.methods.end(),
                                     [&](const MethodAdvice& m) { return may(m) && m.measured_s; });
  const auto counts = [&](const MethodAdvice& m) { return may(m) && (m.measured_s || !any_tried); };
  double least_s = std::numeric_limits<double>::infinity();
  for (const MethodAdvice& m : advice.methods)
    if (counts(m)) least_s = std::min(least_s, m.seconds());
  const MethodAdvice* best = nullptr;
  for (const MethodAdvice& m : advice.methods)
    if (counts(m) && m.seconds() <= kAboutAsLong * least_s && (best == nullptr || *m.error < *best->error))
      best = &m;
  return best;
}

// The text after the colon of a rule.
std::string action_of(const MethodAdvice* method, double limit) {
  if (method == nullptr) return std::string(kExact);
  return std::string(method->method) + (method->within(limit) ? "" : " feedback=address");
}

// A communicator's name as a pattern: a character that a rule cannot spell becomes '?', which matches any
// character.
std::string pattern_of(const std::string& name) {
  std::string out = name;
  for (char& c : out)
    if (static_cast<unsigned char>(c) <= ' ' || c == ':' || c == ';' || c == '*' || c == 0x7f) c = '?';
  return out;
}

// What a rule can select by, besides the bytes. Neighbouring sizes with the same method become one rule.
using Selector = std::tuple<Collective, std::string, int, kernels::Element>;  // name, ranks
struct Choice {
  int log2_first = 0, log2_end = 0;
  std::string action;
};

std::string rule_text(const Selector& selector, const Choice& choice, bool by_name) {
  const auto& [collective, comm, ranks, element] = selector;
  std::string text;
  if (collective != Collective::allreduce) text.append(name(collective)).append(" ");
  text += size_range_text(std::uint64_t{1} << choice.log2_first,
                          choice.log2_end > 63 ? kNoEnd : std::uint64_t{1} << choice.log2_end);
  text += "@" + std::to_string(ranks) + " ";
  text += kernels::name(element);
  if (by_name) text += " comm=" + pattern_of(comm);
  return text.append(": ").append(choice.action);
}

// The last rule that matches wins. No rule can select a communicator without a name. So where communicators
// of one size differ, the rule for the nameless one comes first, and the named ones state what they need,
// even "mpi".
template <class Action>
std::string rules_of(std::span<const ClassAdvice> classes, const Action& action_of_class) {
  std::map<Selector, std::map<int, std::string>> chosen;  // actions by log2 of the bytes
  std::map<std::tuple<Collective, int, kernels::Element>, std::vector<std::string>> names;
  bool any = false;
  for (const ClassAdvice& c : classes) {
    if (c.methods.empty()) continue;
    std::string action = action_of_class(c);
    any = any || action != kExact;
    chosen[{c.collective, c.id.comm, c.id.ranks, c.element}].emplace(c.id.log2_bytes, std::move(action));
    std::vector<std::string>& known = names[{c.collective, c.id.ranks, c.element}];
    if (std::find(known.begin(), known.end(), c.id.comm) == known.end()) known.push_back(c.id.comm);
  }
  std::string out;
  for (const auto& [selector, by_size] : chosen) {
    const auto& [collective, comm, ranks, element] = selector;
    const bool several = names[{collective, ranks, element}].size() > 1;
    std::vector<Choice> rules;
    for (const auto& [log2, action] : by_size) {
      if (!rules.empty() && rules.back().log2_end == log2 && rules.back().action == action)
        rules.back().log2_end = log2 + 1;
      else
        rules.push_back({log2, log2 + 1, action});
    }
    for (const Choice& rule : rules)
      if (several || rule.action != kExact)
        out.append(out.empty() ? "" : "; ").append(rule_text(selector, rule, several && !comm.empty()));
  }
  return any ? out : "";
}

}  // namespace

bool misses(double predicted_s, double measured_s) {
  return !(predicted_s > 0 && measured_s > 0 && measured_s <= kMostMiss * predicted_s &&
           predicted_s <= kMostMiss * measured_s);
}

std::vector<ClassAdvice> advise(const Evidence& evidence) {
  std::map<ClassId, ClassSums> sums;
  for (const Record& record : evidence.records)
    for (const auto& [id, numbers] : record.classes)
      if (could_be_served(id, &numbers)) sums[id];
  for (const Samples& samples : evidence.samples)
    for (const auto& [id, own] : samples)
      if (could_be_served(id, nullptr)) sums[id].add(own);
  std::vector<ClassAdvice> out;
  for (const auto& [id, of] : sums) {
    ClassAdvice advice;
    advice.id = id;
    advice.collective = collective_of(id);
    advice.samples = of.samples;
    advice.element = of.element;
    advice.values = of.values;
    add_times(evidence.records, advice);
    if (of.samples > 0 && advice.calls > 0) add_methods(of, evidence, advice);
    out.push_back(std::move(advice));
  }
  std::stable_sort(out.begin(), out.end(), [](const ClassAdvice& a, const ClassAdvice& b) {
    return a.mean_s * static_cast<double>(a.calls) > b.mean_s * static_cast<double>(b.calls);
  });
  return out;
}

std::string policy_of(std::span<const ClassAdvice> classes, double limit, bool with_feedback) {
  return rules_of(classes,
                  [&](const ClassAdvice& c) { return action_of(best_of(c, limit, with_feedback), limit); });
}

std::string auto_policy_of(std::span<const ClassAdvice> classes, double limit) {
  Method method;
  method.automatic = {Automatic::Kind::relative, limit};
  return rules_of(classes, [&](const ClassAdvice& c) {
    const bool may = unfit_for(c.collective, method).empty() && best_of(c, limit, false) != nullptr;
    return may ? to_string(method) : std::string(kExact);
  });
}

}  // namespace mq
