#include "mpi_quant/preload/intercept.hpp"

#include <bit>
#include <cstring>
#include <mutex>

#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/guard.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/engine/frame.hpp"
#include "mpi_quant/preload/control.hpp"
#include "mpi_quant/preload/site.hpp"
#include "mpi_quant/preload/watch.hpp"
#include "mpi_quant/report/call_record.hpp"

namespace mq {
namespace {

using kernels::Element;

// True if all ranks are in MPI_COMM_WORLD. Others, spawned or connected, may run without this library.
bool inside_world(MPI_Comm comm) {
  int initialized = 0, result = MPI_UNEQUAL;
  if (PMPI_Initialized(&initialized) != MPI_SUCCESS || !initialized) return false;
  if (comm == MPI_COMM_WORLD) return true;
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL, common = MPI_GROUP_NULL;
  const bool known = PMPI_Comm_group(comm, &group) == MPI_SUCCESS &&
                     PMPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS &&
                     PMPI_Group_intersection(group, world, &common) == MPI_SUCCESS &&
                     PMPI_Group_compare(group, common, &result) == MPI_SUCCESS;
  for (MPI_Group* const made : {&group, &world, &common})
    if (*made != MPI_GROUP_NULL && *made != MPI_GROUP_EMPTY) (void)PMPI_Group_free(made);
  return known && result == MPI_IDENT;
}

// Why MPI reduces a call with these arguments on this communicator. None: the library may reduce it.
std::optional<Reason> classify(const Call& call, std::optional<Element>& element) {
  if (const auto exact = exact_by_arguments(call, kSmallFloorBytes, element)) return exact;
  return exact_by_ranks(call.comm);
}

// One call that is under way.
class Interception {
 public:
  Interception(const Call& call, Element element, CallRecord& record)
      : call_(call), record_(record), element_(element) {
    options_.may_fall_back = true;
  }
  Outcome run();

 private:
  CallFacts facts() const;
  std::optional<Reason> count();
  std::optional<Reason> choose_here() noexcept;
  std::optional<Reason> choose();
  Sender sender() const;
  void identify();
  void deliver_held();
  void prepare_compressed();
  bool plan_guard(bool captured);
  void send_all();
  Outcome operate_compressed();
  void count_guarded(const Outcome& outcome);
  Status judge(const Outcome& ran);
  Outcome exact(Reason why) {
    record_.reason = why;
    return {{}, true};
  }

  const Call& call_;
  CallRecord& record_;
  const Element element_;
  CommState* state_ = nullptr;
  std::uint64_t number_ = 0;
  const Rule* rule_ = nullptr;
  Method method_;
  CallOptions options_;
  Control said_;            // what MPI_Pcontrol said
  Key key_;                 // the key that MPI_Pcontrol named
  std::uint64_t kind_ = 0;  // identifies the calls that are guarded together
  GuardedCall guarded_;
  GuardWindow* window_ = nullptr;      // the window that this call has joined
  std::unique_ptr<GuardWindow> own_;   // the same, if this is the last call of the window
  bool is_guarded_ = false;            // the call is judged
  std::uint64_t* flushed_ = nullptr;   // not null: this call flushes a residual
  Reason fell_back_ = Reason::failed;  // why this rank left the call to MPI after all
  bool retires_ = false;               // this call delivers the residual of a rule that was given up
};

CallFacts Interception::facts() const {
  int size = 0;
  (void)PMPI_Comm_size(call_.comm, &size);
  const std::uint64_t bytes = static_cast<std::uint64_t>(call_.count) * kernels::element_bytes(element_);
  return {bytes, size, element_, number_, state_->policy.comm_name, true, record_.site};
}

// Counts the call. Returns why no rank compresses it; none if some rank may.
std::optional<Reason> Interception::count() {
  const std::uint64_t bytes = facts().bytes;
  if (bytes >= state_->policy.rules.floor_bytes()) {
    number_ = state_->policy.calls++;
    said_ = control();
    key_ = take_key();
    state_->intercepted.identities.begin_call(said_.step);
  }
  return exact_on_all_ranks(*state_, facts());
}

// Returns why this rank would not compress the call; none if it would. All ranks learn of an error here.
std::optional<Reason> Interception::choose_here() noexcept {
  try {
    if (watching() || state_->policy.rules.prospect(facts()).by_site) record_.site = call_site();
    const std::optional<Reason> exact = choose();
    if (rule_ != nullptr && !rule_->method.exact() && watching()) record_.method = action_text(*rule_);
    if (state_->policy.mode != Mode::on) return exact;
    if (!exact) prepare_compressed();
    if (exact == Reason::guard) deliver_held();
    return exact;
  } catch (const std::bad_alloc&) {
    options_.local_error = {Code::no_memory, "out of memory"};
    method_ = {};
    is_guarded_ = false;
    if (window_ != nullptr && own_ == nullptr) state_->intercepted.guards[kind_].window.reset();
    return Reason::failed;
  }
}

std::optional<Reason> Interception::choose() {
  if (said_.off) return Reason::switched_off;
  const Decision decision = decide(*state_, facts(), options_);
  rule_ = decision.rule;
  method_ = decision.method;
  options_.seed = decision.seed;
  if (decision.exact) return decision.exact;
  const Safeguards& safeguards = rule_->safeguards;
  // Feedback and guard are part of what the ranks have to agree on.
  options_.safeguards = Hash{}.add(safeguards.feedback).add(safeguards.guard).add(safeguards.error).value();
  kind_ = options_.safeguards ^ hash_of(method_.params) ^ memory_hash(method_) ^
          (std::uint64_t{method_.codec->id} << 48);
  const auto guard = state_->intercepted.guards.find(kind_);
  if (guard != state_->intercepted.guards.end() && guard->second.tripped) return Reason::guard;
  return {};
}

void Interception::prepare_compressed() {
  identify();
  if (rule_->safeguards.guard == 0 || kernels::element_bytes(element_) < sizeof(float)) return;
  // A flush delivers what calls of the window left out, so the window can no longer be judged.
  if (flushed_ != nullptr) return state_->intercepted.guards[kind_].window.reset();
  const bool captured = is_captured(sender().input) || is_captured(call_.recvbuf);
  const bool is_due = plan_guard(captured);
  if (!is_due) return;
  // The ranks have to agree on judging this call only. If some judge it and others do not, it is exact.
  options_.safeguards = Hash{}.add(options_.safeguards).add(window_ != nullptr ? window_->hash() : 0).value();
  const Residuals::Entry* const entry =
      options_.key.empty() ? nullptr : state_->residuals.find(options_.key.view());
  is_guarded_ = !captured;
  if (!captured) options_.local_error = guarded_.prepare(call_, element_, entry, window_);
  // If this library lacks memory, MPI may have enough. During a capture the copies of the guard would be an
  // error. In both cases the call is exact on all ranks, as without a guard.
  if (!captured && options_.local_error.code() != Code::no_memory) return;
  options_.local_error = {};
  is_guarded_ = false;
  method_ = {};
  fell_back_ = captured ? Reason::capture : Reason::no_memory;
}

// True if this call is judged: either alone, or as the last call of a window. It joins its window here.
bool Interception::plan_guard(bool captured) {
  Guard& guard = state_->intercepted.guards[kind_];
  if (options_.key.empty()) return guard.calls >= guard.next_alone;
  constexpr std::uint64_t kForgotten = 4096;  // calls without the residual of a window, until it is dropped
  const auto count = static_cast<std::size_t>(call_.count);
  if (guard.window != nullptr && guard.calls - guard.window->last_number() > kForgotten) guard.window.reset();
  if (guard.window == nullptr) guard.window = GuardWindow::open(options_.key.view(), count, element_);
  if (guard.window == nullptr || !guard.window->is_of(options_.key.view(), count, element_)) return false;
  if (captured || !guard.window->add_input(guard.calls, sender().input).ok()) {
    guard.window.reset();
    return false;
  }
  window_ = guard.window.get();
  if (window_->calls() < rule_->safeguards.guard) return false;
  own_ = std::move(guard.window);  // however this call ends, the window is over
  return true;
}

Sender Interception::sender() const {
  const void* const input = call_.sendbuf == MPI_IN_PLACE ? call_.recvbuf : call_.sendbuf;
  return {
      static_cast<const std::byte*>(input),
      static_cast<std::size_t>(call_.count),
      element_,
      key_.view(),
      said_.step,
      said_.flush,
      method_.exact() ? 1 : std::max<std::size_t>(1, static_cast<std::size_t>(method_.memory_rule().arrays))};
}

// Finds the residual of the call, if the rule asks for one and it is certain whose it is.
void Interception::identify() {
  if (sender().input == nullptr || method_.memory_rule().arrays == 0) return;
  const Identities::Found found = state_->intercepted.identities.identify(
      rule_->safeguards.feedback, sender(), state_->residuals, env()->residual_bytes);
  // Estimates go on from call to call. A vector that is not known for certain would start them again each time.
  const bool guesses = method_.memory_rule().keeps_estimates && found.what == FeedbackOutcome::unconfirmed;
  options_.key = guesses ? Key() : found.key;
  record_.feedback = found.what;
  if (found.flushed == nullptr || *found.flushed == said_.flush) return;
  flushed_ = found.flushed;
  send_all();
}

// The rule was given up. If something still waits in the residual of this call, this call delivers it.
void Interception::deliver_held() {
  options_.key = state_->intercepted.identities.held(rule_->safeguards.feedback, sender(), state_->residuals);
  retires_ = !options_.key.empty();
  if (retires_) send_all();
}

// Sends the sum and the residual exactly: raw leaves nothing out. The ranks have to agree on it.
void Interception::send_all() {
  method_ = {};
  method_.codec = kernels::find_codec("raw");
  method_.params = kernels::preset_params(*method_.codec);
  options_.safeguards = ~options_.safeguards;
}

Outcome Interception::operate_compressed() {
  const Outcome outcome = operate(*state_, call_, options_, method_);
  if (outcome.without_memory)
    record_.feedback = FeedbackOutcome::unconfirmed;  // of another rank, if not of this one
  {
    const std::scoped_lock lock(state_->mutex);
    // If the ranks did not agree to flush, the residual waits on.
    if (outcome.status.ok() && flushed_ != nullptr) *flushed_ = said_.flush;
    // The residual was delivered. Or other ranks have no residual for this call, and it would wait for ever.
    if (outcome.status.ok() && retires_) state_->residuals.drop(options_.key.view());
    if (rule_->safeguards.guard > 0 && flushed_ == nullptr && !retires_) count_guarded(outcome);
  }
  if (!outcome.ran || !is_guarded_) return outcome;
  return {judge(outcome), false};
}

void Interception::count_guarded(const Outcome& outcome) {
  constexpr std::uint64_t kMostSplits = 3;
  Guard& guard = state_->intercepted.guards[kind_];
  guard.calls += outcome.ran;  // the same on all ranks, also if it failed on some
  const bool is_alone = is_guarded_ && window_ == nullptr;
  if (is_alone) guard.splits = outcome.split ? guard.splits + 1 : 0;
  // If some ranks have a residual and others do not, those that would judge alone never agree. They stop
  // trying for a while.
  if (is_alone && (outcome.ran || guard.splits == kMostSplits)) {
    guard.next_alone = guard.calls - outcome.ran + rule_->safeguards.guard;
    guard.splits = 0;
  }
  // All ranks that have a window drop it. Windows that began at different calls never end at the same call.
  if (outcome.split) guard.window.reset();
  if (guard.window == nullptr || window_ != guard.window.get()) return;
  const bool added = outcome.ran && outcome.status.ok() && window_->add_result(call_.recvbuf).ok();
  if (!added) guard.window.reset();
}

Status Interception::judge(const Outcome& ran) {
  const Safeguards& safeguards = rule_->safeguards;
  const Result<GuardResult> result =
      guarded_.judge(call_, ran, safeguards.error, safeguards.feedback != Identity::off);
  if (!result.ok()) return result.status();
  record_.guard_error = result->error;
  if (!result->replaced) return {};
  const std::scoped_lock lock(state_->mutex);
  if (result->given_up) state_->intercepted.guards[kind_].tripped = true;
  if (!options_.key.empty()) state_->residuals.drop(options_.key.view());
  record_.reason = result->given_up ? Reason::guard : Reason::failed;
  return result->delivered;
}

Outcome Interception::run() {
  if (find_state(call_.comm) == nullptr) {
    if (!inside_world(call_.comm)) return exact(Reason::foreign);
    watch(false);
  }
  bool compresses = false;  // or delivers what waits in a residual
  record_.reason = Reason::failed;
  const Result<CommState*> found = CommState::obtain(call_.comm, CommState::Initial::environment);
  if (!found.ok()) return {found.status(), false};
  state_ = *found;
  if (state_ == nullptr) return exact(Reason::outside);
  {
    const std::scoped_lock lock(state_->mutex);
    std::optional<Reason> why_exact = count();
    record_.advisable = state_->policy.mode == Mode::advise && facts().bytes >= kFloorBytes;
    if (!why_exact && state_->policy.mode == Mode::on) {
      const Result<bool> active = state_->activate(call_.comm, Use::messages);
      if (!active.ok()) return {active.status(), false};
      if (!*active) why_exact = Reason::no_communicator;
    }
    if (why_exact) {
      ++state_->stats.calls;
      return exact(*why_exact);
    }
    why_exact = choose_here();
    if (state_->policy.mode != Mode::on) return exact(why_exact.value_or(Reason::would_be_compressed));
    record_.reason = why_exact.value_or(Reason::compressed);
    compresses = !why_exact || retires_;
    record_.before(state_->stats);
  }
  const Outcome outcome = compresses ? operate_compressed() : operate(*state_, call_, options_, {});
  const std::scoped_lock lock(state_->mutex);
  record_.after(state_->stats);
  if (!outcome.status.ok() || outcome.split)
    record_.reason = outcome.split ? Reason::split : Reason::failed;
  else if (outcome.exact && record_.reason == Reason::compressed)
    record_.reason = outcome.fell_back.value_or(fell_back_);
  return outcome;
}

}  // namespace

int intercepted_allreduce(const Call& call) {
  const bool watched = watching();
  std::optional<Element> element;
  if (const std::optional<Reason> exact = classify(call, element)) {
    if (!watched) return exact_allreduce(call, element);
    ExactCall counted(call, *exact);
    const int code = exact_allreduce(call, element);
    counted.end();
    return code;
  }
  const std::uint64_t begin = watched ? ticks() : 0;
  CallRecord record;
  const Outcome outcome = with_memory([&] { return Interception(call, *element, record).run(); });
  if (!watched) return conclude(call, outcome);
  const std::uint64_t middle = ticks();
  AdvisedCall advised(call, record.advisable);
  const std::uint64_t resumed = ticks();
  const int code = conclude(call, outcome);
  record.take(call, middle - begin + (ticks() - resumed));
  advised.after(code == MPI_SUCCESS);
  return code;
}

void count_call(mpiq_counted what, const Call& call) noexcept {
  const ExactCall counted(call, what == MPIQ_NONBLOCKING ? Reason::nonblocking : Reason::persistent);
}

}  // namespace mq
