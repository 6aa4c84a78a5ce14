#include "mpi_quant/core/choices.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/extension.hpp"

namespace mq {

// One class. Its address stays as long as its communicator.
class ChoiceClass final : public CallClock {
 public:
  explicit ChoiceClass(const CallClass& calls) : chooser(calls) {}
  // Without the mutex: only the thread that makes the class's blocking calls uses these times.
  void dense_took(std::size_t bytes, double begin_s) noexcept override {
    times.add_dense(scaled(now_s() - begin_s, bytes));
  }
  // A time as if the vector had the size that stands for the class.
  double scaled(double seconds, std::size_t bytes) const {
    return seconds * static_cast<double>(chooser.calls().bytes) / static_cast<double>(bytes);
  }

  Chooser chooser;
  OwnTimes times;
};

namespace {

constexpr std::size_t kMostClasses = 512;  // calls of further sizes are left to MPI

using ClassKey = std::tuple<kernels::Element, Automatic::Kind, double, int>;

// Sizes within a factor of the square root of two. bytes: more than 0.
int size_class(std::uint64_t bytes) {
  const int zeros = std::countl_zero(bytes);
  const std::uint64_t leading = bytes << zeros >> 32;  // its highest bit is set
  return 2 * (63 - zeros) + static_cast<int>(leading * leading >> 63);
}

struct Choices;

// What the communicators of this process have learnt: for reports, and for MPIQ_KNOWLEDGE_OUT.
class Memories {
 public:
  void add(const Choices* choices) { live_.push_back(choices); }
  void remove(const Choices* choices);
  std::vector<ChoiceSummary> all() const;
  // Through a second file, so that a reader never finds half of it. Of a class that several communicators
  // have, the line that was learnt from most calls counts.
  void write(const std::string& path) const;

 private:
  std::vector<const Choices*> live_;
  std::vector<ChoiceSummary> freed_;
};
struct GuardedMemories {
  std::mutex mutex;
  Memories memories;
};
GuardedMemories& memories_of_process() {
  static Immortal<GuardedMemories> all;
  return *all;
}

struct Choices final : Extension {
  Choices() {
    GuardedMemories& all = memories_of_process();
    const std::scoped_lock lock(all.mutex);
    all.memories.add(this);
  }
  ~Choices() override;
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;
  void forget(const char*) noexcept override {}

  std::map<ClassKey, std::unique_ptr<ChoiceClass>> classes;
  Buffer sample, wire, decoded;
};

std::vector<ChoiceSummary> summaries_of(const Choices& choices) {
  std::vector<ChoiceSummary> out;
  for (const auto& [key, calls] : choices.classes)
    out.push_back({calls->chooser.known(), calls->chooser.totals()});
  return out;
}

void Memories::remove(const Choices* choices) {
  std::erase(live_, choices);
  for (ChoiceSummary& summary : summaries_of(*choices)) freed_.push_back(std::move(summary));
}

std::vector<ChoiceSummary> Memories::all() const {
  std::vector<ChoiceSummary> out = freed_;
  for (const Choices* const choices : live_)
    for (ChoiceSummary& summary : summaries_of(*choices)) out.push_back(std::move(summary));
  return out;
}

void Memories::write(const std::string& path) const {
  std::vector<KnownClass> lines;
  for (const ChoiceSummary& summary : all()) {
    const KnownClass& known = summary.known;
    if (known.dense_s <= 0) continue;  // nothing was learnt
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const KnownClass& line) { return line.calls == known.calls; });
    if (same == lines.end())
      lines.push_back(known);
    else if (same->learnt_from < known.learnt_from)
      *same = known;
  }
  const std::string beside = path + ".new";
  std::ofstream file(beside);
  file << "# What auto has learnt: docs/auto.md\n";
  for (const KnownClass& line : lines) file << to_string(line) << '\n';
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path, error);
}

// Rank 0 of the program writes what it knows each time one of its communicators goes.
Choices::~Choices() {
  try {
    GuardedMemories& all = memories_of_process();
    const std::scoped_lock lock(all.mutex);
    all.memories.remove(this);
    const bool writes = env().ok() && !env()->knowledge_out.empty() && rank_by_launcher() == 0;
    if (writes && !classes.empty()) all.memories.write(env()->knowledge_out);
  } catch (const std::exception&) {
    // No memory, or the disk: the program goes on without the file.
  }
}

const ExtensionKind kind([](CommState&) -> std::unique_ptr<Extension> {
  return std::make_unique<Choices>();
});

Choices& choices_of(const CommState& state) {
  return static_cast<Choices&>(const_cast<CommState&>(state).extension(kind));
}

// A sample: runs of consecutive elements from all over the vector, at other places in each call. Its length
// is such that a call takes about a hundredth longer.
constexpr std::size_t kRun = 256, kMostRuns = 64;
constexpr double kShare = 0.01, kSecondsOfElement = 4e-9;

std::size_t runs_of_sample(const ChoiceClass& calls, std::size_t count) {
  const std::size_t favourite = calls.chooser.favourite();
  const double fitting = kShare * calls.chooser.seconds(favourite) / kSecondsOfElement / kRun;
  const auto runs = static_cast<std::size_t>(std::clamp(fitting, 1.0, static_cast<double>(kMostRuns)));
  return std::clamp<std::size_t>(count / kRun, 1, runs);
}

// Copies the sample of a vector on the host or a device. Returns its elements.
std::size_t gather(const std::byte* vector, std::size_t count, std::size_t width, std::size_t runs,
                   std::uint64_t number, std::byte* to) {
  const std::size_t length = std::min(kRun, count), places = count / length;
  for (std::size_t r = 0; r < runs; ++r) {
    const std::size_t place = (r * places + mixed(number * kMostRuns + r) % places) / runs;
    if (!copy_now(to + r * length * width, vector + place * length * width, length * width).ok()) return 0;
  }
  return runs * length;
}

template <class T>
float relative_error(const std::byte* before, const std::byte* after, std::size_t n) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T x, y;
    std::memcpy(&x, before + i * sizeof(T), sizeof(T));
    std::memcpy(&y, after + i * sizeof(T), sizeof(T));
    error += static_cast<double>(x - y) * static_cast<double>(x - y);
    norm += static_cast<double>(x) * static_cast<double>(x);
  }
  if (error == 0) return 0;
  constexpr float kMost = std::numeric_limits<float>::max();
  const double relative = std::sqrt(error / norm);
  return relative < static_cast<double>(kMost) ? static_cast<float>(relative) : kMost;  // also if it is a NaN
}

// What the candidate does to n elements of the sample.
Sampled try_on(Choices& choices, const AutoCandidate& candidate, std::size_t n, kernels::Element element) {
  constexpr Sampled kRuined{std::numeric_limits<float>::max(), 0};
  const Method& method = candidate.method;
  kernels::EncodeArgs out;
  out.x = choices.sample.data();
  out.n = n;
  out.params = method.params;
  if (!choices.wire.reserve(method.codec->wire_bound(n, element, method.params))) return kRuined;
  out.wire = choices.wire.data();
  const kernels::CodecOps& ops = *method.codec->ops(element, env()->isa);
  const kernels::Encoded encoded = ops.encode(out);
  Sampled sampled{0, static_cast<float>(encoded.bytes) / static_cast<float>(n)};
  if (candidate.has_sure_error) return sampled;
  kernels::DecodeArgs in;
  in.wire = out.wire;
  in.wire_bytes = encoded.bytes;
  in.n = n;
  in.params = method.params;
  in.x = choices.decoded.data();
  if (ops.decode(in) != kernels::Decoded::ok) return kRuined;
  sampled.error = element == kernels::Element::f64
                      ? relative_error<double>(choices.sample.data(), choices.decoded.data(), n)
                      : relative_error<float>(choices.sample.data(), choices.decoded.data(), n);
  return sampled;
}

// The length of what waits in the residual, in vectors, by the sample.
template <class T>
float debt(const std::byte* vector, const std::byte* waits, std::size_t n) {
  double owed = 0, norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T x, r;
    std::memcpy(&x, vector + i * sizeof(T), sizeof(T));
    std::memcpy(&r, waits + i * sizeof(T), sizeof(T));
    owed += static_cast<double>(r) * static_cast<double>(r);
    norm += static_cast<double>(x) * static_cast<double>(x);
  }
  if (owed == 0) return 0;
  constexpr float kMost = std::numeric_limits<float>::max();
  const double vectors = std::sqrt(owed / norm);
  return vectors < static_cast<double>(kMost) ? static_cast<float>(vectors) : kMost;
}

}  // namespace

Chosen choose_automatically(const Situation& s, const Automatic& limit) {
  Choices& choices = choices_of(*s.state);
  const std::size_t bytes = s.facts->bytes;
  const ClassKey key{*s.element, limit.kind, limit.value, size_class(std::max<std::uint64_t>(bytes, 1))};
  auto at = choices.classes.find(key);
  if (at == choices.classes.end()) {
    if (bytes == 0 || choices.classes.size() == kMostClasses) return {};
    CallClass calls;
    calls.bytes = bytes;
    calls.element = *s.element;
    calls.ranks = s.facts->ranks;
    calls.limit = limit;
    auto made = std::make_unique<ChoiceClass>(calls);
    if (const auto& knowledge = s.state->policy.knowledge)
      made->chooser.freeze(find_known(*knowledge, calls));
    at = choices.classes.emplace(key, std::move(made)).first;
  }
  ChoiceClass& calls = *at->second;
  Chosen chosen;
  chosen.calls = &calls;
  chosen.teaches = s.is_blocking;
  chosen.bytes = bytes;
  chosen.choice = s.is_blocking ? calls.chooser.next() : calls.chooser.favourite_choice();
  if (s.is_blocking) chosen.begin_s = now_s();
  return chosen;
}

const AutoCandidate& candidate_of(const Chosen& chosen) {
  return chosen.calls->chooser.candidate(chosen.choice.candidate);
}
CallClock* clock_of(const Chosen& chosen) { return chosen.calls; }

void bring(const CommState& state, Chosen& chosen, const Call& call, kernels::Element element,
           const std::byte* waits, Heard& heard) noexcept {
  ChoiceClass& calls = *chosen.calls;
  if (chosen.teaches) calls.times.take(heard);
  chosen.agreement_s = now_s();
  const Choice& choice = chosen.choice;
  if (!choice.sampled && choice.scouted == 0) return;
  constexpr Sampled kUnknown{std::numeric_limits<float>::max(), 0};
  heard.own = choice.sampled ? kUnknown : Sampled{};
  heard.scouted = choice.scouted != 0 ? kUnknown : Sampled{};
  if (kernels::compute_element(element) != element || call.count <= 0) return;
  Choices& choices = choices_of(state);
  const std::size_t width = kernels::element_bytes(element), count = static_cast<std::size_t>(call.count),
                    runs = runs_of_sample(calls, count), room = runs * kRun * width;
  if (!choices.sample.reserve(room) || !choices.decoded.reserve(room)) return;
  const std::uint64_t number = calls.chooser.totals().calls;
  const std::size_t n =
      gather(static_cast<const std::byte*>(call.input()), count, width, runs, number, choices.sample.data());
  if (n == 0) return;
  const bool owes = calls.chooser.calls().limit.kind == Automatic::Kind::feedback;
  if (choice.sampled && !owes) heard.own = try_on(choices, candidate_of(chosen), n, element);
  if (choice.scouted != 0)
    heard.scouted = try_on(choices, calls.chooser.candidate(choice.scouted), n, element);
  if (!owes) return;
  heard.scouted.error = 0;  // what a call leaves out waits for the next
  if (!choice.sampled) return;
  heard.own = {};
  if (waits == nullptr) return;
  if (gather(waits, count, width, runs, number, choices.decoded.data()) != n) return;
  heard.own.error = element == kernels::Element::f64
                        ? debt<double>(choices.sample.data(), choices.decoded.data(), n)
                        : debt<float>(choices.sample.data(), choices.decoded.data(), n);
}

bool hear(const Chosen& chosen, const Heard& heard) noexcept {
  ChoiceClass& calls = *chosen.calls;
  const Choice& choice = chosen.choice;
  if (!chosen.teaches)
    return !choice.sampled || calls.chooser.allows(choice.candidate, static_cast<double>(heard.own.error));
  calls.times.add_agreement(now_s() - chosen.agreement_s);
  return calls.chooser.heard(heard);
}

void disagree(const Chosen& chosen) noexcept {
  if (chosen.teaches) chosen.calls->chooser.split();
}

// Codecs also reduce half types if MPI is chosen, for MPI cannot add them.
void took(const Chosen& chosen) noexcept {
  if (!chosen.teaches) return;
  OwnTimes& times = chosen.calls->times;
  const double seconds = chosen.calls->scaled(now_s() - chosen.begin_s, chosen.bytes);
  chosen.choice.candidate == 0 ? times.add_dense(seconds) : times.add_call(seconds);
}

std::vector<ChoiceSummary> choice_summaries() {
  GuardedMemories& all = memories_of_process();
  const std::scoped_lock lock(all.mutex);
  return all.memories.all();
}

Status ChoiceJudge::prepare(const Chosen& chosen, const Call& call, kernels::Element element) {
  is_judged_ =
      chosen.calls != nullptr && chosen.choice.judged && kernels::compute_element(element) == element;
  return is_judged_ ? guarded_.prepare(call, element, nullptr, nullptr) : Status{};
}

Outcome ChoiceJudge::judge(CommState& state, const Chosen& chosen, const Call& call, Outcome outcome) {
  if (!is_judged_ || !outcome.ran) return outcome;
  const Result<GuardResult> result =
      guarded_.judge(call, outcome, chosen.calls->chooser.calls().limit.value, false);
  if (!result.ok()) return failed(result.status());
  const std::scoped_lock lock(state.mutex);
  (void)chosen.calls->chooser.judged(std::max(result->error, 0.0));
  if (!result->replaced) return outcome;
  outcome.status = result->delivered;
  outcome.delivered = true;
  outcome.reason = outcome.status.ok() ? Reason::inexact : Reason::failed;
  return outcome;
}

}  // namespace mq
