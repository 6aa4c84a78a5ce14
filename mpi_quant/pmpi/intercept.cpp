#include "mpi_quant/pmpi/intercept.hpp"

#include <bit>
#include <cstring>
#include <mutex>

#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/datatypes.hpp"
#include "mpi_quant/frame.hpp"
#include "mpi_quant/pmpi/control.hpp"
#include "mpi_quant/pmpi/guard.hpp"
#include "mpi_quant/pmpi/site.hpp"
#include "mpi_quant/report/note.hpp"
#include "mpi_quant/report/watch.hpp"

namespace mq {
namespace {

using kernels::Element;

// All ranks are in MPI_COMM_WORLD: others, spawned or connected, may run without this library.
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

// What a call is, as far as its arguments tell; Reason::compressed: it could be ours.
Reason classify(const Call& call, std::optional<Element>& element) {
  if (call.comm == MPI_COMM_NULL || call.datatype == MPI_DATATYPE_NULL || call.op == MPI_OP_NULL ||
      call.count < 0)
    return Reason::handle;
  element = element_of(call.datatype);
  if (!element) return Reason::type;
  if (call.op != MPI_SUM) return Reason::op;
  if (static_cast<std::uint64_t>(call.count) < kSmallFloorBytes / kernels::element_bytes(*element))
    return Reason::small;
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(call.comm, &inter) != MPI_SUCCESS) return Reason::handle;
  if (inter) return Reason::inter;
  if (PMPI_Comm_size(call.comm, &size) != MPI_SUCCESS || size < 2) return Reason::alone;
  return Reason::compressed;
}

// One call under way.
class Interception {
 public:
  Interception(const Call& call, Element element, Note& note) : call_(call), note_(note), element_(element) {}
  Outcome run();

 private:
  CallFacts facts() const;
  Reason agreed_reason();
  Reason decide() noexcept;
  Reason choose();
  void identify();
  Outcome operate_guarded();
  Status judge(GuardedCall& guarded);
  Outcome exact(Reason why) {
    note_.reason = why;
    return {{}, true};
  }

  const Call& call_;
  Note& note_;
  const Element element_;
  CommState* state_ = nullptr;
  std::uint64_t number_ = 0;
  const Rule* rule_ = nullptr;
  Method method_;
  Wishes wishes_;
  std::string key_;         // by MPI_Pcontrol
  std::uint64_t kind_ = 0;  // of the calls that are guarded together
  std::uint64_t* flushed_ = nullptr;
};

CallFacts Interception::facts() const {
  int size = 0;
  (void)PMPI_Comm_size(call_.comm, &size);
  const std::uint64_t bytes = static_cast<std::uint64_t>(call_.count) * kernels::element_bytes(element_);
  return {bytes, size, element_, number_, state_->name, true, note_.site};
}

// What all ranks know: Reason::compressed if some of them may compress.
Reason Interception::agreed_reason() {
  const CallFacts known = facts();
  if (known.bytes >= state_->policy.floor_bytes()) number_ = state_->policy_calls++;
  if (state_->stats.exact_mode != 0) return state_->stats.exact_mode == 1 ? Reason::differs : Reason::version;
  if (state_->policy.prospect(facts()).may_compress) return Reason::compressed;
  return known.bytes < kFloorBytes ? Reason::small : Reason::rule;
}

// What this rank would do: Reason::compressed: compress. Lack of memory is told to the others.
Reason Interception::decide() noexcept {
  try {
    if (watching || state_->policy.prospect(facts()).by_site) note_.site = call_site();
    const Reason chosen = choose();
    if (rule_ != nullptr && !rule_->method.exact() && watching) note_.method = action_text(*rule_);
    if (chosen == Reason::compressed && state_->mode == Mode::on) identify();
    return chosen;
  } catch (const std::bad_alloc&) {
    wishes_.trouble = {Code::no_memory, "out of memory"};
    return Reason::failed;
  }
}

Reason Interception::choose() {
  if (control().off) return Reason::switched_off;
  rule_ = state_->policy.rule_for(facts());
  if (rule_ == nullptr || rule_->method.exact()) return Reason::rule;
  method_ = rule_->method;
  const Care& care = rule_->care;
  // Feedback and guard are part of what the ranks have to agree on.
  wishes_.care = Hash{}.add(care.feedback).add(care.guard).add(care.error).value();
  kind_ = wishes_.care ^ hash_of(method_.params) ^ (std::uint64_t{method_.codec->id} << 48);
  const auto guard = state_->guards.find(kind_);
  return guard != state_->guards.end() && guard->second.tripped ? Reason::guard : Reason::compressed;
}

// The residual of the call, if the rule asks for one and there is no doubt whose it is.
void Interception::identify() {
  const Control said = control();
  const void* const input = call_.sendbuf == MPI_IN_PLACE ? call_.recvbuf : call_.sendbuf;
  if (input == nullptr) return;
  const Sender sender{static_cast<const std::byte*>(input),
                      static_cast<std::size_t>(call_.count),
                      element_,
                      key_,
                      said.step,
                      said.flush};
  const Identities::Found found =
      state_->identities.identify(rule_->care.feedback, sender, state_->residuals, env()->residual_bytes);
  wishes_.key = found.key;
  note_.feedback = found.what;
  if (found.key.empty() || *found.flushed == said.flush) return;
  method_ = {};  // what raw sends is exact, residual and all
  method_.codec = kernels::find_codec("raw");
  method_.params = kernels::preset_params(*method_.codec);
  flushed_ = found.flushed;
}

Outcome Interception::operate_guarded() {
  const Care& care = rule_->care;
  GuardedCall guarded;
  bool is_guarded = false;
  {
    const std::scoped_lock lock(state_->mutex);
    const bool comparable = flushed_ == nullptr && kernels::element_bytes(element_) >= sizeof(float);
    is_guarded = comparable && care.guard > 0 && state_->guards[kind_].calls % care.guard == 0;
    const Residuals::Entry* const entry =
        wishes_.key.empty() ? nullptr : state_->residuals.find(wishes_.key.view());
    if (is_guarded)
      wishes_.trouble = guarded.prepare(call_, element_, entry ? entry->buffer.data() : nullptr);
  }
  const Outcome outcome = operate(*state_, call_, wishes_, method_);
  if (!outcome.status.ok() || outcome.exact) return outcome;
  if (flushed_ != nullptr) *flushed_ = control().flush;
  if (care.guard > 0) {
    const std::scoped_lock lock(state_->mutex);
    ++state_->guards[kind_].calls;  // on all ranks alike: they have agreed on all that is in kind_
  }
  if (!is_guarded) return outcome;
  return {judge(guarded), false};
}

Status Interception::judge(GuardedCall& guarded) {
  const Care& care = rule_->care;
  const Result<Verdict> verdict = guarded.judge(*state_, call_, care.error, care.feedback != Identity::off);
  if (!verdict.ok()) return verdict.status();
  note_.guard_error = verdict->error;
  if (!verdict->given_up) return {};
  const std::scoped_lock lock(state_->mutex);
  state_->guards[kind_].tripped = true;
  if (!wishes_.key.empty()) state_->residuals.drop(wishes_.key.view());
  note_.reason = Reason::guard;
  return {};
}

Outcome Interception::run() {
  key_ = take_key();
  if (CommState::find(call_.comm) == nullptr) {
    if (!inside_world(call_.comm)) return exact(Reason::foreign);
    watch(false);
  }
  note_.reason = Reason::failed;
  const Result<CommState*> found = CommState::obtain(call_.comm, CommState::Initial::environment);
  if (!found.ok()) return {found.status(), false};
  state_ = *found;
  if (state_ == nullptr) return exact(Reason::outside);
  {
    const std::scoped_lock lock(state_->mutex);
    Reason chosen = agreed_reason();
    note_.advisable = state_->mode == Mode::advise && facts().bytes >= kFloorBytes;
    if (chosen == Reason::compressed) {
      chosen = decide();
      if (state_->mode == Mode::on)
        note_.reason = chosen;
      else
        return exact(chosen == Reason::compressed ? Reason::would_be_compressed : chosen);
    } else {
      ++state_->stats.calls;
      return exact(chosen);
    }
    note_.before(state_->stats);
  }
  wishes_.yields = true;
  const Outcome outcome =
      note_.reason == Reason::compressed ? operate_guarded() : operate(*state_, call_, wishes_, {});
  const std::scoped_lock lock(state_->mutex);
  note_.after(state_->stats);
  if (!outcome.status.ok() || outcome.split) note_.reason = outcome.split ? Reason::split : Reason::failed;
  return outcome;
}

}  // namespace

int intercepted_allreduce(const Call& call) {
  std::optional<Element> element;
  const Reason reason = classify(call, element);
  if (reason != Reason::compressed) {
    if (!watching) return exact_allreduce(call, element);
    ExactCall counted(call, reason);
    const int code = exact_allreduce(call, element);
    counted.end();
    return code;
  }
  const std::uint64_t begin = watching ? ticks() : 0;
  Note note;
  const Outcome outcome = with_memory([&] { return Interception(call, *element, note).run(); });
  if (!watching) return conclude(call, outcome);
  const std::uint64_t middle = ticks();
  AdvisedCall advised(call, note.advisable);
  const std::uint64_t resumed = ticks();
  const int code = conclude(call, outcome);
  note.take(call, middle - begin + (ticks() - resumed));
  advised.after(code == MPI_SUCCESS);
  return code;
}

void count_call(mpiq_counted what, const Call& call) noexcept {
  const ExactCall counted(call, what == MPIQ_NONBLOCKING ? Reason::nonblocking : Reason::persistent);
}

}  // namespace mq
