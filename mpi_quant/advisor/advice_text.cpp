// Prints advice, for people and as JSON.

#include <array>
#include <cmath>

#include "mpi_quant/advisor/advice.hpp"
#include "mpi_quant/base/figures.hpp"
#include "mpi_quant/base/json.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

constexpr std::size_t kMethodWidth = 26, kWidth = 16;

// The vectors of the ranks are said to resemble each other if ClassAdvice::resemblance is above this.
constexpr double kResemble = 1.5;

// If the means of the ranks differ by this share of the smallest mean, a good part of the time is waiting.
constexpr double kUneven = 0.1;

// A message that takes longer than this to start waits for the scheduler, not only for a network.
constexpr double kSlowStart_s = 1e-3;

// A machine is busy if a rank was ready to run but had no core for this share of the run.
constexpr double kBusy = 0.1;

// The text says that speed-ups may be smaller if the measured exact call takes this many times the model's
// time.
constexpr double kFarOff = 2;

std::string ms(double seconds) { return short_number(1e3 * seconds); }

std::string error_text(const std::optional<double>& error) {
  if (!error) return "unknown";
  return std::isinf(*error) ? "overflows" : percent(*error);
}

// What MPI does without the library: a call that does not add is no sum.
std::string_view exact_words(Collective collective) { return adds(collective) ? "exact sum" : "exact call"; }

std::string heading(const ClassAdvice& c) {
  std::string text = (c.id.comm.empty() ? std::string("unnamed communicator") : c.id.comm);
  text += ", " + std::to_string(c.id.ranks) + " ranks, " + c.id.type + " " + c.id.op + ", ";
  text += size_range_text(std::uint64_t{1} << c.id.log2_bytes,
                          c.id.log2_bytes >= 63 ? kNoEnd : std::uint64_t{1} << (c.id.log2_bytes + 1));
  return text + " bytes: " + std::to_string(c.calls) + (c.calls == 1 ? " call" : " calls") + " of " +
         short_number(c.bytes / 1024) + " KiB on average\n";
}

std::string times(const ClassAdvice& c) {
  std::string text = "  ms a call: " + ms(c.min_s) + " on the fastest rank, " + ms(c.mean_s) +
                     " on average, " + ms(c.max_s) + " on the slowest\n";
  // With a root some ranks leave early, although none is late.
  if (!has_root(c.collective) && c.max_s - c.min_s > kUneven * c.min_s)
    text += "    compression cannot shorten the wait for late ranks: up to " + ms(c.max_s - c.min_s) +
            " ms of it (slowest - fastest)\n";
  return text;
}

std::string seen(const ClassAdvice& c) {
  if (c.samples == 0 || c.values.n == 0) return "  No call was sampled: nothing is known of the values.\n";
  std::string text = "  values: " + words(c.values) + " (" + std::to_string(c.samples) +
                     (c.samples == 1 ? " sample, " : " samples, ") + std::to_string(c.values.n) +
                     " elements)\n";
  for (const std::string& warning : warnings(c.values)) text += "    " + warning + "\n";
  if (c.resemblance > kResemble)
    text += "    the vectors of the ranks resemble each other: errors may be up to " +
            short_number(std::sqrt(c.resemblance)) + " times those below\n";
  return text;
}

std::string row(std::string_view method, std::string_view predicted, std::string_view speedup,
                std::string_view bytes, std::string_view error) {
  return "  " + left_aligned(method, kMethodWidth) + right_aligned(predicted, kWidth) +
         right_aligned(speedup, kWidth) + right_aligned(bytes, kWidth) +
         (error.empty() ? "" : right_aligned(error, kWidth)) + "\n";
}

// The model's time of the exact call, compared with the measured time.
std::string model_of_exact(const ClassAdvice& c) {
  if (!c.dense_s || !(*c.dense_s > 0) || !(c.min_s > 0)) return {};
  const double ratio = c.exact_s / *c.dense_s;
  std::string text = "    the network alone would need " + ms(*c.dense_s) + " ms for the " +
                     std::string(exact_words(c.collective)) + ", by the model; the program's calls took " +
                     fixed(c.min_s / *c.dense_s, 2) +
                     (has_root(c.collective) ? " to " + fixed(c.max_s / *c.dense_s, 2) : "") +
                     " times that\n";
  if (ratio > kFarOff)
    text += "    calls wait for something other than the link (late ranks, memory, a busy machine): ";
  else if (ratio < 1 / kFarOff)
    text += "    MPI is faster here than its messages: ";
  else
    return text;
  return text +
         (misses(*c.dense_s, c.exact_s) ? "the model promises no speed-up\n" : "speed-ups may be far less\n");
}

std::string table(const ClassAdvice& c) {
  if (c.methods.empty()) return {};
  std::string text = row("method", "ms predicted", "speed-up", "bytes/element", "error");
  const double dense = static_cast<double>(kernels::element_bytes(c.element));
  text += row(has_root(c.collective) && c.dense_s ? "mpi, estimated" : "mpi, as measured", ms(c.exact_s), "1",
              short_number(dense), "");
  for (const MethodAdvice& m : c.methods)
    text += row(m.method, m.predicted_s ? ms(*m.predicted_s) : "?", m.speedup ? fixed(*m.speedup, 2) : "?",
                short_number(m.bytes_per_element), error_text(m.error));
  return text + model_of_exact(c);
}

std::string check_text(const Validation& v, std::span<const ClassAdvice> classes) {
  const Collective collective = collective_of(v.of);
  const std::string exact(exact_words(collective));
  std::string text = "  " + v.method + ", ";
  if (collective != Collective::allreduce) text.append(name(collective)).append(" ");
  text += size_text(static_cast<std::uint64_t>(v.bytes)) + "@" + std::to_string(v.of.ranks) + ": predicted " +
          ms(v.predicted_s) + " ms, measured " + ms(v.measured_s) + " ms";
  if (v.predicted_s > 0) text += ", ratio " + fixed(v.measured_s / v.predicted_s, 2);
  for (const ClassAdvice& c : classes)
    for (const MethodAdvice& m : c.methods)
      if (c.id == v.of && m.method == v.method && m.measured_s)
        return text +
               (m.doubt == Doubt::slower ? ": no faster than the " + exact + ", not suggested"
                                         : ": " + fixed(*m.speedup, 2) + " times as fast as the " + exact) +
               "\n";
  if (misses(v.predicted_s, v.measured_s))
    text += std::string(": too far off, ") +
            (v.method == kExact ? "the model promises no speed-up" : "not suggested");
  return text + "\n";
}

std::string model_text(const Evidence& evidence, std::span<const ClassAdvice> classes) {
  if (!evidence.link) return "The link was not measured: nothing is predicted.\n";
  const LinkModel& link = *evidence.link;
  std::string text = "Predictions: link of " + short_number(1e6 * link.latency_s) + " us + " +
                     short_number(1e6 * link.overhead_s) + " us at each end of a message + ";
  text += link.beta_s > 0 ? "bytes / " + short_number(1e-9 / link.beta_s) + " GB/s" : "nothing for bytes";
  text += ", which misses its own measurements by " + percent(link.residual) + " (root mean square);\n" +
          "codec and memory times come from the samples.\n";
  if (evidence.validations.empty())
    return text + "No compressed call was run to check them: try the policy before you believe them.\n";
  text += "Checked by calls at the end of the run (a ratio beyond " + short_number(kMostMiss) +
          " or below its inverse is too far off):\n";
  for (const Validation& v : evidence.validations) text += check_text(v, classes);
  return text;
}

std::string busy_text(const Evidence& evidence) {
  const Cores& cores = evidence.cores;
  std::vector<std::string> signs;
  if (cores.waited > kBusy)
    signs.push_back("a rank waited " + percent(cores.waited) + " of the run for a core");
  if (cores.cores > 0 && cores.ranks > cores.cores)
    signs.push_back(std::to_string(cores.ranks) + " ranks ran on a node of " + std::to_string(cores.cores) +
                    " cores");
  if (evidence.link && evidence.link->alpha_s() > kSlowStart_s)
    signs.push_back("a message takes " + ms(evidence.link->alpha_s()) + " ms at least");
  if (signs.empty()) return {};
  return "This machine was busy: " +
         joined(
             signs, [](const std::string& s) { return s; }, ", ") +
         ".\nTimes and predictions come from a busy machine: ask again on a quiet one.\n";
}

double limit_of(const Evidence& evidence) { return evidence.error > 0 ? evidence.error : kCareful; }

std::string limit_text(const Evidence& evidence) {
  return evidence.error > 0 ? short_number(evidence.error) + " (--error)" : percent(kCareful);
}

// The reason why no method within the limit is suggested.
std::string why_none(std::span<const ClassAdvice> classes, double limit, const std::string& limit_words) {
  const MethodAdvice* closest = nullptr;
  std::array<bool, 4> doubted{};
  for (const ClassAdvice& c : classes)
    for (const MethodAdvice& m : c.methods) {
      if (m.error && (closest == nullptr || *m.error < *closest->error)) closest = &m;
      if (m.within(limit)) doubted[static_cast<std::size_t>(m.doubt)] = true;
    }
  if (closest == nullptr) return "the errors are not known.";
  if (!closest->within(limit))
    return "no method has an error within " + limit_words + ".\n  The smallest is " +
           error_text(closest->error) + " (" + std::string(closest->method) + "): keep MPI's calls.";
  if (doubted[static_cast<std::size_t>(Doubt::none)])
    return "no method with an error within " + limit_words + " promises a speed-up above " +
           short_number(kLeastSpeedup) + ".";
  if (doubted[static_cast<std::size_t>(Doubt::slower)])
    return "in the check above no method with an error within " + limit_words +
           " was faster than MPI's own call.";
  return "the model is off by more than a factor of " + short_number(kMostMiss) +
         " (see above), so that it promises nothing.";
}

std::string quoted_policy(const std::string& policy) { return "  MPIQ_POLICY='" + policy + "'\n"; }

// What a rule for these collectives changes beside the error.
std::string dangers_text(std::string_view policy) {
  const bool casts = policy.find(name(Collective::bcast)) != std::string_view::npos;
  if (!casts && policy.find(name(Collective::allgather)) == std::string_view::npos) return {};
  return std::string(casts ? "  A compressed broadcast also changes the root's vector.\n" : "") +
         "  In broadcasts and allgathers all ranks must give types of float or double, or some wait for ever\n"
         "  (docs/preload.md).\n";
}

std::string policy_text(const Evidence& evidence, std::span<const ClassAdvice> classes) {
  const double limit = limit_of(evidence);
  const std::string words = limit_text(evidence), careful = policy_of(classes, limit, false);
  std::string text = busy_text(evidence);
  if (careful.empty())
    text += "Policy to try: none; " + why_none(classes, limit, words) + "\n";
  else
    text +=
        "Policy to try (each result within an estimated error of " + words + "):\n" + quoted_policy(careful);
  text += dangers_text(careful);
  if (const std::string automatic = auto_policy_of(classes, limit); !automatic.empty())
    text += "Or let the library choose while the program runs, MPI's calls included (docs/auto.md):\n" +
            quoted_policy(automatic);
  const std::string fastest = policy_of(classes, limit, true);
  if (evidence.error > 0 || fastest.empty() || fastest == careful) return text;
  text += "For loops that sum the same buffers again and again, such as training, and for nothing else:\n";
  text += quoted_policy(fastest);
  text +=
      "  One result may be as wrong as the table says. Feedback adds what it left out to the next call, so "
      "that\n";
  text +=
      "  only the sum over many calls comes right. Training may need a lower learning rate. Look at the "
      "column\n";
  return text + "  \"feedback\" of a run with --report - before you trust the results.\n";
}

// JSON has neither NaN nor Inf.
std::string json_number(const std::optional<double>& v) {
  return v && std::isfinite(*v) ? number(*v) : "null";
}

std::string json_values(const ValueStatistics& v) {
  const bool range = v.min_exponent <= v.max_exponent;
  return "{\"n\":" + std::to_string(v.n) + ",\"zeros\":" + std::to_string(v.zeros) +
         ",\"whole\":" + std::to_string(v.whole) + ",\"nonfinite\":" + std::to_string(v.nonfinite) +
         ",\"min_exponent\":" + (range ? std::to_string(v.min_exponent) : "null") +
         ",\"max_exponent\":" + (range ? std::to_string(v.max_exponent) : "null") +
         ",\"rms\":" + json_number(v.rms()) + "}";
}

std::string_view name(Doubt doubt) {
  constexpr std::array<std::string_view, 4> kNames{"", "model", "check", "slower"};
  return kNames[static_cast<std::size_t>(doubt)];
}

std::string json_method(const MethodAdvice& m) {
  return "{\"method\":" + json_quote(m.method) + ",\"predicted_s\":" + json_number(m.predicted_s) +
         ",\"measured_s\":" + json_number(m.measured_s) + ",\"speedup\":" + json_number(m.speedup) +
         ",\"doubt\":" + json_quote(name(m.doubt)) +
         ",\"bytes_per_element\":" + json_number(m.bytes_per_element) + ",\"error\":" + json_number(m.error) +
         ",\"overflows\":" + (m.error && std::isinf(*m.error) ? "true" : "false") + "}";
}

std::string json_class(const ClassAdvice& c) {
  return "{\"collective\":" + json_quote(name(c.collective)) + ",\"comm\":" + json_quote(c.id.comm) +
         ",\"ranks\":" + std::to_string(c.id.ranks) + ",\"type\":" + json_quote(c.id.type) +
         ",\"op\":" + json_quote(c.id.op) + ",\"log2_bytes\":" + std::to_string(c.id.log2_bytes) +
         ",\"calls\":" + std::to_string(c.calls) + ",\"bytes\":" + json_number(c.bytes) +
         ",\"min_s\":" + json_number(c.min_s) + ",\"mean_s\":" + json_number(c.mean_s) +
         ",\"max_s\":" + json_number(c.max_s) + ",\"samples\":" + std::to_string(c.samples) +
         ",\"values\":" + json_values(c.values) + ",\"resemblance\":" + json_number(c.resemblance) +
         ",\"dense_model_s\":" + json_number(c.dense_s) + ",\"methods\":[" +
         joined(c.methods, json_method, ",") + "]}";
}

}  // namespace

std::string advice_text(const Evidence& evidence) {
  const std::vector<ClassAdvice> classes = advise(evidence);
  if (classes.empty())
    return "Advice: none. No call sums, gathers or broadcasts at least 64 KiB of float or double over two ranks "
           "or more.\n";
  bool sampled = false;
  std::string text;
  for (const ClassAdvice& c : classes) {
    text += heading(c) + times(c) + seen(c) + table(c) + "\n";
    sampled = sampled || !c.methods.empty();
  }
  if (!sampled) return text + "Nothing was sampled: there is no advice.\n";
  text +=
      "Errors: estimated, relative L2 norm of a result, of one call without feedback; the rounding errors "
      "of\n";
  text +=
      "ranks are taken as uncorrelated. Of what is left out, keys or feedback carry most to the next call.\n";
  return text + model_text(evidence, classes) + policy_text(evidence, classes);
}

std::string advice_json(const Evidence& evidence) {
  return "[" + joined(advise(evidence), json_class, ",") + "]";
}

std::string suggestion_json(const Evidence& evidence) {
  const std::vector<ClassAdvice> classes = advise(evidence);
  const double limit = limit_of(evidence);
  return "{\"error\":" + number(limit) + ",\"policy\":" + json_quote(policy_of(classes, limit, false)) +
         ",\"auto\":" + json_quote(auto_policy_of(classes, limit)) +
         ",\"with_feedback\":" + json_quote(evidence.error > 0 ? "" : policy_of(classes, limit, true)) +
         ",\"busy\":" + json_quote(busy_text(evidence)) + "}";
}

}  // namespace mq
