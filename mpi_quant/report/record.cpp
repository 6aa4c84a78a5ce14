#include "mpi_quant/report/record.hpp"

#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>

#include "kernels/codec.hpp"

namespace mq {
namespace {

struct Wording {
  Reason reason;
  std::string_view name, words;
};
constexpr Wording kReasonWords[]{
    {Reason::compressed, "compressed", "compressed"},
    {Reason::would_be_compressed, "would_be_compressed", "would be compressed"},
    {Reason::small, "small", "below the floor of 64 KiB"},
    {Reason::type, "type", "not a type of reals"},
    {Reason::op, "op", "not MPI_SUM"},
    {Reason::handle, "handle", "a null or invalid handle"},
    {Reason::inter, "inter", "on an intercommunicator"},
    {Reason::alone, "alone", "on one rank"},
    {Reason::foreign, "foreign", "beyond MPI_COMM_WORLD"},
    {Reason::rule, "rule", "no rule compresses it"},
    {Reason::differs, "differs", "ranks have different policies"},
    {Reason::version, "version", "ranks have different library versions"},
    {Reason::switched_off, "switched_off", "switched off by MPI_Pcontrol"},
    {Reason::split, "split", "ranks chose differently"},
    {Reason::slower, "slower", "auto: MPI is the fastest, or not yet known not to be"},
    {Reason::inexact, "inexact", "auto: its data would lose more than the limit"},
    {Reason::no_residual, "no_residual", "auto: it has no key, or is not recognised yet"},
    {Reason::guard, "guard", "given up by the guard"},
    {Reason::nonblocking, "nonblocking", "a non-blocking call, such as MPI_Iallreduce"},
    {Reason::persistent, "persistent", "a persistent call, such as MPI_Allreduce_init"},
    {Reason::outside, "outside", "before MPI_Init or after MPI_Finalize"},
    {Reason::no_communicator, "no_communicator", "MPI has no communicator left"},
    {Reason::no_memory, "no_memory", "no memory for this library"},
    {Reason::overlap, "overlap", "its vectors share memory"},
    {Reason::capture, "capture", "during the capture of a CUDA graph"},
    {Reason::no_matrix, "no_matrix", "a scheme such as lowrank cannot serve it"},
    {Reason::failed, "failed", "ended in an error"},
};

// In the footer of a report these words follow the name.
struct FeedbackName {
  FeedbackOutcome feedback;
  std::string_view name;
  Fate fate;
  std::string_view words;
};
constexpr FeedbackName kFeedbackNames[]{
    {FeedbackOutcome::none, "none", Fate::none, ""},
    {FeedbackOutcome::unconfirmed, "unconfirmed", Fate::waiting,
     "no feedback: not yet recognised as the same tensor from call to call"},
    {FeedbackOutcome::hit, "hit", Fate::fine, "what the call before left out was added"},
    {FeedbackOutcome::fresh, "fresh", Fate::fine, "the first call that kept what it left out"},
    {FeedbackOutcome::stranger, "stranger", Fate::lost,
     "no feedback: the values belong to another tensor than the known one"},
    {FeedbackOutcome::shape, "shape", Fate::lost, "dropped: the call before had another count or type"},
    {FeedbackOutcome::in_use, "in_use", Fate::lost,
     "no feedback: a request of the program uses the residual"},
    {FeedbackOutcome::budget, "budget", Fate::lost,
     "dropped or never kept: no memory left for it (MPIQ_RESIDUALS)"},
    {FeedbackOutcome::not_finite, "not_finite", Fate::fine,
     "NaN or Inf in the vector: what waited was left as it was"},
};

constexpr bool tables_are_in_order() {
  for (std::size_t i = 0; i < std::size(kReasonWords); ++i)
    if (static_cast<std::size_t>(kReasonWords[i].reason) != i) return false;
  for (std::size_t i = 0; i < std::size(kFeedbackNames); ++i)
    if (static_cast<std::size_t>(kFeedbackNames[i].feedback) != i) return false;
  return true;
}
static_assert(std::size(kReasonWords) == kReasons && std::size(kFeedbackNames) == kFeedbackOutcomes &&
              tables_are_in_order());

// A class may have had calls of two methods. The one with the larger weight tells more about them.
int weight(std::string_view method) {
  if (method.empty()) return 0;
  if (method == "mpi") return 1;
  return lossless(method) ? 2 : 3;
}

// The larger one of two errors. NaN is worse than any error.
double worse(double a, double b) { return std::isnan(b) || b > a ? b : a; }

// Never freed, because it is read when MPI is finalized, and static objects may be gone then.
struct Threads {
  std::mutex mutex;
  std::vector<ThreadRecord*> records;
};
Threads& threads() {
  static Threads* const all = new Threads;
  return *all;
}

}  // namespace

std::string_view name(Reason reason) { return kReasonWords[static_cast<std::size_t>(reason)].name; }
std::string_view words(Reason reason) { return kReasonWords[static_cast<std::size_t>(reason)].words; }
std::string_view name(FeedbackOutcome feedback) {
  return kFeedbackNames[static_cast<std::size_t>(feedback)].name;
}
std::string_view words(FeedbackOutcome feedback) {
  return kFeedbackNames[static_cast<std::size_t>(feedback)].words;
}
Fate fate(FeedbackOutcome feedback) { return kFeedbackNames[static_cast<std::size_t>(feedback)].fate; }

Collective collective_of(const ClassId& id) {
  const std::string_view op = id.op, word = op.substr(0, op.find('('));
  for (const Collective collective : kCollectives)
    if (word == name(collective)) return collective;
  return Collective::allreduce;
}

bool lossless(std::string_view method) {
  const kernels::Codec* const codec = kernels::find_codec(method.substr(0, method.find_first_of("(/ ")));
  return codec != nullptr && codec->lossless;
}

std::uint64_t Numbers::total_calls() const {
  return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
}

void Numbers::add(const Numbers& other) {
  for (std::size_t i = 0; i < kReasons; ++i) calls[i] += other.calls[i];
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) feedback[i] += other.feedback[i];
  bytes += other.bytes;
  compressed_bytes += other.compressed_bytes;
  wire_bytes += other.wire_bytes;
  overflows += other.overflows;
  seconds += other.seconds;
  encode_s += other.encode_s;
  decode_s += other.decode_s;
  wait_s += other.wait_s;
  guarded += other.guarded;
  guard_error_sum += other.guard_error_sum;
  guard_error_max = worse(guard_error_max, other.guard_error_max);
  if (weight(other.method) >= weight(method)) method = other.method;
}

ThreadRecord* ThreadRecord::mine() noexcept {
  thread_local ThreadRecord* mine = nullptr;
  if (mine != nullptr) return mine;
  try {
    auto made = std::make_unique<ThreadRecord>();
    Threads& all = threads();
    const std::lock_guard lock(all.mutex);
    all.records.push_back(made.get());
    mine = made.release();
  } catch (...) {
    return nullptr;  // the next call tries again
  }
  return mine;
}

Numbers& ThreadRecord::remember(const CallTraits& traits, const ClassId& id) {
  Numbers& numbers = record_.classes[id];
  if (known_.size() == kMaxKnown) known_.erase(known_.begin());
  known_.push_back({traits, &numbers});
  return numbers;
}

Record whole_record() {
  Record whole;
  Threads& all = threads();
  const std::lock_guard lock(all.mutex);
  for (const ThreadRecord* const thread : all.records) {
    for (const auto& [id, numbers] : thread->record().classes) whole.classes[id].add(numbers);
    for (const auto& [site, numbers] : thread->record().sites) whole.sites[site].add(numbers);
  }
  return whole;
}

}  // namespace mq
