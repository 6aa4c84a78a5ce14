#include "mpi_quant/core/choices.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <filesystem>
#include <forward_list>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "mpi_quant/automatic/overlap.hpp"
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
  ChoiceClass(const CallClass& calls, const CommState& state, bool agrees_anyway)
      : times(calls.timed()), agrees_anyway_(agrees_anyway), knowledge_(state.policy.knowledge) {
    choosers_.push_front(made(calls));
  }
  Chooser& chooser() { return choosers_.front(); }
  const Chooser& chooser() const { return choosers_.front(); }
  // The first call of a communicator finds out which ranks share a node, so only later ones may choose a plan
  // by that. Ranks of a single node are as if each had its own. The chooser of before lives on for the calls
  // that it has chosen for: they may be in flight, or persistent. May throw std::bad_alloc; nothing has
  // changed then.
  void set_nodes(int per_node) {
    if (per_node == chooser().calls().ranks) per_node = 1;
    if (chooser().calls().per_node == per_node) return;
    CallClass with_nodes = chooser().calls();
    with_nodes.per_node = per_node;
    choosers_.push_front(made(with_nodes));
    times.forget();
    overlap = {};
  }
  TimedRank timed() const { return chooser().calls().timed(); }
  // Without the mutex: only the thread that makes the class's blocking calls uses these times.
  void dense_took(std::size_t bytes, double begin_s) noexcept override {
    times.add_dense(scaled(now_s() - begin_s, bytes));
  }
  // The codecs have reduced a call that began then.
  void call_took(std::size_t bytes, double begin_s) noexcept {
    const double now = now_s();
    times.add_call(scaled(now - begin_s, bytes), scaled(now - agreed_s, bytes));
  }
  // Instead of the codecs.
  void mpi_reduces(const Chosen& chosen) noexcept { times.add_trying(scaled(chosen.trying_s, chosen.bytes)); }
  // A time as if the vector had the size that stands for the class.
  double scaled(double seconds, std::size_t bytes) const {
    return seconds * static_cast<double>(chooser().calls().bytes) / static_cast<double>(bytes);
  }
  // Learns from the beginning, as all ranks do when one of them has missed a call.
  void restart(Chooser& chooser) noexcept {
    chooser.restart();
    times.forget();
    overlap = {};
  }

  // MPIQ_KNOWLEDGE decides, whatever calls take.
  bool chooses_by_file() const { return knowledge_ != nullptr; }

  OwnTimes times;
  double agreed_s = 0;  // when the last agreement of a blocking call ended
  Overlap overlap;      // of calls that are not blocking

 private:
  Chooser made(const CallClass& calls) const {
    Chooser chooser(calls, agrees_anyway_);
    if (knowledge_ != nullptr) chooser.freeze(find_known(*knowledge_, calls));
    return chooser;
  }

  std::forward_list<Chooser> choosers_;  // the newest first; none moves
  bool agrees_anyway_;
  const std::vector<KnownClass>* knowledge_;  // null: learns
};

namespace {

// The most classes of a communicator. Calls of further classes are left to MPI. Classes of several vectors
// have a limit of their own, because vectors come in many numbers and sizes.
constexpr std::size_t kMostClasses = 512, kMostGroupClasses = 256;
constexpr std::size_t kMostKept = std::size_t{64} << 20;  // bytes of a communicator, for judging

using ClassKey = std::tuple<Collective, bool, kernels::Element, Automatic::Kind, double, bool, int, int>;

// Sizes within a factor of the square root of two. bytes: more than 0.
int size_class(std::uint64_t bytes) {
  const int zeros = std::countl_zero(bytes);
  const std::uint64_t leading = bytes << zeros >> 32;  // its highest bit is set
  return 2 * (63 - zeros) + static_cast<int>(leading * leading >> 63);
}
// The size that stands for a class: a power of two, or one and a half.
std::size_t size_of_class(int size_class) {
  const std::size_t power = std::size_t{1} << (size_class / 2);
  return size_class % 2 == 0 ? power : power + power / 2;
}

struct Choices;

// What the communicators of this process have learnt: for reports, and for MPIQ_KNOWLEDGE_OUT.
class Memories {
 public:
  void add(const Choices* choices) { live_.push_back(choices); }
  void remove(const Choices* choices);
  std::vector<ChoiceSummary> all() const;
  // What freed communicators have learnt. Through a second file, so that a reader never finds half of it.
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
    int rank = -1;
    is_writer = env().ok() && !env()->knowledge_out.empty() && !env()->has_knowledge &&
                PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && rank == 0;
    GuardedMemories& all = memories_of_process();
    const std::scoped_lock lock(all.mutex);
    all.memories.add(this);
  }
  ~Choices() override;
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;
  void forget(const char*) noexcept override {}

  std::map<ClassKey, std::unique_ptr<ChoiceClass>> classes;
  std::size_t group_classes = 0;  // of them
  CallSamples samples;
  GuardedCall judging;     // between judged calls: keeps its memory
  bool is_writer = false;  // of MPIQ_KNOWLEDGE_OUT
};

std::vector<ChoiceSummary> summaries_of(const Choices& choices) {
  std::vector<ChoiceSummary> out;
  for (const auto& [key, calls] : choices.classes)
    out.push_back({calls->chooser().known(), calls->chooser().totals(), calls->chooser().counts()});
  return out;
}

void Memories::remove(const Choices* choices) {
  std::erase(live_, choices);
  for (ChoiceSummary& summary : summaries_of(*choices)) {
    const auto same = std::find_if(freed_.begin(), freed_.end(), [&](const ChoiceSummary& other) {
      return other.known.calls == summary.known.calls;
    });
    if (same == freed_.end())
      freed_.push_back(std::move(summary));
    else
      same->add(summary);
  }
}

std::vector<ChoiceSummary> Memories::all() const {
  std::vector<ChoiceSummary> out = freed_;
  for (const Choices* const choices : live_)
    for (ChoiceSummary& summary : summaries_of(*choices)) out.push_back(std::move(summary));
  return out;
}

void Memories::write(const std::string& path) const {
  const std::string beside = path + "." + std::to_string(getpid());
  std::ofstream file(beside);
  file << "# What auto has learnt: docs/auto.md\n";
  for (const ChoiceSummary& summary : freed_)
    if (summary.known.learnt_from > 0 && summary.known.dense_s > 0) file << to_string(summary.known) << '\n';
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path, error);
  if (!file || error) std::filesystem::remove(beside, error);
}

// Rank 0 of the program writes what it knows each time one of its communicators goes. A run that chooses by a
// file learns nothing, and writes none.
Choices::~Choices() {
  try {
    GuardedMemories& all = memories_of_process();
    const std::scoped_lock lock(all.mutex);
    all.memories.remove(this);
    if (is_writer && !classes.empty()) all.memories.write(env()->knowledge_out);
  } catch (const std::exception&) {
    // No memory, or the disk: the program goes on without the file.
  }
}

const ExtensionKind kind_of_choices([](CommState&) -> std::unique_ptr<Extension> {
  return std::make_unique<Choices>();
});

Choices& choices_of(const CommState& state) {
  return static_cast<Choices&>(const_cast<CommState&>(state).extension(kind_of_choices));
}

// How many vectors with elements a call is of, within a factor of two; 0: it is a call of one vector.
int vectors_class(const Call& call) {
  if (call.group == nullptr) return 0;
  const auto& vectors = call.group->vectors;
  const auto n = std::count_if(vectors.begin(), vectors.end(),
                               [](const GroupCall::Vector& vector) { return vector.n > 0; });
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

std::uint16_t hash_of_limit(const Automatic& limit) {
  const std::uint64_t all = Hash{}.add(limit.kind).add(limit.value).value();
  return static_cast<std::uint16_t>(all >> 48 ^ all);
}

}  // namespace

Chosen choose_automatically(const Situation& s, const Automatic& limit) noexcept {
  Choices& choices = choices_of(*s.state);
  Chosen chosen;
  chosen.bytes = s.call_key->bytes;
  chosen.teaches = s.is_blocking;
  if (chosen.bytes == 0) return {};
  const int size = size_class(chosen.bytes);
  const Collective collective = s.call.collective;
  const bool is_uneven = has_uneven_parts(s.call);
  const int vectors = vectors_class(s.call);
  const ClassKey key{collective,           is_uneven, *s.element, limit.kind, limit.value,
                     s.program != nullptr, vectors,   size};
  chosen.limit_hash = hash_of_limit(limit);
  auto at = choices.classes.find(key);
  const std::size_t of_groups = choices.group_classes, of_one = choices.classes.size() - of_groups;
  if (at == choices.classes.end() &&
      (vectors > 0 ? of_groups == kMostGroupClasses : of_one == kMostClasses)) {
    chosen.has_no_class = true;
    return chosen;
  }
  try {
    if (at == choices.classes.end()) {
      CallClass calls;
      calls.bytes = size_of_class(size);
      calls.element = *s.element;
      calls.ranks = s.call_key->ranks;
      calls.limit = limit;
      calls.collective = collective;
      calls.has_uneven_parts = is_uneven;
      calls.vectors = vectors;
      at = choices.classes.emplace(key, std::make_unique<ChoiceClass>(calls, *s.state, s.program == nullptr))
               .first;
      choices.group_classes += vectors > 0;
    }
    if (collective == Collective::allreduce) at->second->set_nodes(s.state->channel.per_node());
  } catch (const std::bad_alloc&) {
    chosen.has_no_class = true;
    chosen.choice.agrees = true;  // as the first call of the class on the other ranks
    return chosen;
  }
  ChoiceClass& calls = *at->second;
  chosen.calls = &calls;
  chosen.chooser = &calls.chooser();
  chosen.choice = s.is_blocking ? chosen.chooser->next() : chosen.chooser->favourite_choice();
  if (s.is_blocking) chosen.begin_s = now_s();
  return chosen;
}

const AutoCandidate& candidate_of(const Chosen& chosen) {
  return chosen.chooser->candidate(chosen.choice.candidate);
}
bool follows_choice(const Decision& decision) {
  if (decision.chosen.calls == nullptr) return false;
  return decision.method.codec == candidate_of(decision.chosen).method.codec;
}
CallClock* clock_of(const Chosen& chosen, bool has_agreed) {
  if (chosen.calls == nullptr) return nullptr;
  return chosen.calls->times.counts(has_agreed, chosen.chooser->totals().calls) ? chosen.calls : nullptr;
}

void bring(const CommState& state, Chosen& chosen, const Call& call, kernels::Element element,
           const CallResiduals& waiting, Heard& heard) noexcept {
  constexpr std::uint16_t kNobodys = 0xffff;  // it is no complement of itself, so no rank knows the same
  if (chosen.has_no_class) heard.state = heard.state_complement = kNobodys;
  if (chosen.calls == nullptr) return;
  ChoiceClass& calls = *chosen.calls;
  if (chosen.teaches) {
    calls.times.take(heard);
    heard.state = chosen.chooser->state();
    heard.state_complement = static_cast<std::uint16_t>(~heard.state);
  } else {
    calls.overlap.bring(candidate_of(chosen).method, calls.timed(), heard);
  }
  const Choice& choice = chosen.choice;
  const double begin_s = choice.candidate != 0 ? chosen.begin_s : now_s();
  if (choice.measures || choice.sampled || choice.scouted != 0)
    choices_of(state).samples.bring(chosen, call, element, waiting, heard);
  chosen.agreement_s = now_s();
  chosen.trying_s = chosen.agreement_s - begin_s;
}

std::optional<Reason> hear(const Chosen& chosen, const Heard& heard, bool runs,
                           std::uint32_t number) noexcept {
  if (chosen.calls == nullptr) return {};
  ChoiceClass& calls = *chosen.calls;
  const Choice& choice = chosen.choice;
  if (!chosen.teaches) {
    if (choice.sampled &&
        !chosen.chooser->allows(choice.candidate, static_cast<double>(heard.own.error), choice.margin))
      return Reason::inexact;
    if (choice.candidate == 0 || calls.chooses_by_file() || Overlap::runs(heard, calls.timed(), number))
      return {};
    return Reason::slower;
  }
  if (!all_know_the_same(heard)) {
    calls.restart(*chosen.chooser);
    return Reason::inexact;
  }
  calls.agreed_s = now_s();
  calls.times.add_agreement(calls.agreed_s - chosen.agreement_s);
  const bool allowed = chosen.chooser->heard(heard, runs);
  if (choice.candidate == 0 || !allowed || !runs) calls.mpi_reduces(chosen);
  if (!allowed) return Reason::inexact;
  return {};
}

void disagree(const Chosen& chosen, const Heard& heard) noexcept {
  if (chosen.calls == nullptr || !chosen.teaches) return;
  if (!all_know_the_same(heard)) return chosen.calls->restart(*chosen.chooser);
  chosen.chooser->split();
  chosen.calls->mpi_reduces(chosen);
}

void took(const Chosen& chosen) noexcept {
  if (chosen.calls == nullptr || !chosen.teaches) return;
  chosen.calls->call_took(chosen.bytes, chosen.begin_s);
}

void took_of_program(const Chosen& chosen, bool by_codec, double seconds) noexcept {
  if (chosen.calls == nullptr) return;
  chosen.calls->overlap.took(candidate_of(chosen).method, by_codec,
                             chosen.calls->scaled(seconds, chosen.bytes));
}

std::vector<ChoiceSummary> choice_summaries() {
  GuardedMemories& all = memories_of_process();
  const std::scoped_lock lock(all.mutex);
  return all.memories.all();
}

Status ChoiceJudge::prepare(const CommState& state, const Chosen& chosen, const Call& call,
                            kernels::Element element) {
  is_judged_ =
      chosen.calls != nullptr && chosen.choice.judged && kernels::compute_element(element) == element;
  if (!is_judged_) return {};
  guarded_ = std::move(choices_of(state).judging);
  return guarded_.prepare_alone(call, element, chosen.chooser->calls().shortest_coded());
}

Outcome ChoiceJudge::judge(CommState& state, const Chosen& chosen, const Call& call, Outcome outcome) {
  if (!is_judged_ || !outcome.ran) return outcome;
  const Result<GuardResult> result =
      guarded_.judge(call, outcome, chosen.chooser->calls().limit.value, false);
  if (!result.ok()) return failed(result.status());
  const std::scoped_lock lock(state.mutex);
  if (guarded_.bytes() <= kMostKept) choices_of(state).judging = std::move(guarded_);
  (void)chosen.chooser->judged(std::max(result->error, 0.0));
  took(chosen);  // with judging
  if (!result->replaced) return outcome;
  return replaced(std::move(outcome), result->delivered, Reason::inexact);
}

}  // namespace mq
