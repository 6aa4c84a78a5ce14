#include "mpi_quant/core/allreduce.hpp"

#include <mutex>
#include <utility>

#include "mpi_quant/core/blocking_calls.hpp"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {
namespace {

// The exception boundary: lack of memory becomes an error like any other.
template <class F>
Outcome with_memory(const F& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return failed({Code::no_memory, "out of memory"});
  }
}

// A function of the library is called where the library has no messages. The sum is exact if no rank named a
// method. Otherwise it is an error, and so are half types, of which MPI adds few. The ranks agree on that
// over the program's own communicator.
Status agree_without_messages(const Request& request, Status local_error) {
  const Call& call = request.call;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  std::string facts;
  try {
    const bool is_half = element && kernels::element_bytes(*element) == 2 && adds(call.collective);
    const std::optional<Method>& method = request.options.method;
    if (local_error.ok()) local_error = check_arguments(call, element, false);
    if (local_error.ok() && ((method && !method->exact()) || is_half)) local_error = no_communicator();
    facts =
        "count " + std::to_string(call.count) + (element ? " " + std::string(name(*element)) : " other type");
    if (call.divisor != 1) facts += ", avg";
    if (call.group != nullptr)
      facts += ", MPIQ_Allreduce_group, counts #" + std::to_string(call.group->hash % 1000000);
    facts.push_back('\0');
  } catch (const std::bad_alloc&) {
    local_error = {Code::no_memory, "out of memory"};
  }
  return collective_check(call.comm, local_error, facts, wait_in_call);
}

// MPI has no communicator left for the library, so it has no messages. MPI makes the call of an unmodified
// program in any case.
Outcome without_messages(const Request& request, Status local_error) {
  Status agreed;
  if (request.program == nullptr) agreed = agree_without_messages(request, std::move(local_error));
  return agreed.ok() ? left_to_mpi(Reason::no_communicator) : failed(std::move(agreed));
}

// Runs the blocking call of a communicator that acquire(run, local_error) prepares. The caller has the turn.
// decision: whether it is by a scheme. local_error: why this rank cannot take part, as far as it is known.
template <class Acquire>
Outcome run_blocking(CommState& state, const Request& request, const Decision& decision, Status local_error,
                     const Acquire& acquire) {
  CallRun* run = nullptr;  // null: the ranks cannot exchange messages
  {
    const std::scoped_lock lock(state.mutex);
    state.stats.calls += !request.options.is_part;
    if (!state.broken.ok()) return failed(state.broken);
    const Use use = request.program != nullptr ? Use::messages : Use::all;
    const Result<bool> active = activate(state, request.call.comm, use);
    if (!active.ok()) return failed(active.status());
    if (*active) {
      run = &blocking_runs(state).of(decision);
      acquire(*run, std::move(local_error));
      run->start();
    }
  }
  if (run == nullptr) return without_messages(request, std::move(local_error));
  complete(*run);
  const std::scoped_lock lock(state.mutex);
  run->release();
  return run->outcome();
}

// What the rules of a policy look at.
CallKey call_key_of(const Situation& s, std::string_view comm_name) {
  CallKey call_key;
  call_key.collective = s.call.collective;
  call_key.bytes = static_cast<std::uint64_t>(s.call.count) * kernels::element_bytes(*s.element);
  call_key.ranks = s.ranks;
  call_key.element = *s.element;
  call_key.comm = comm_name;
  call_key.intercepted = s.program != nullptr;
  return call_key;
}

// MPI could only sum the vectors of a group one by one. Ranks with different vectors would then wait for each
// other for ever, so such a call needs an agreement, or is an error on all ranks.
Status group_needs(const GroupCall& group, const char* what) {
  return {Code::bad_argument, std::string(group.function) + " needs " + what};
}

// The rule that would decide on several ranks, as far as one rank can tell: nobody counts its calls, so each
// is taken for the first one. A program is then told what a group refuses before it runs on several ranks.
Status check_rule_of_group(const Request& request, Situation& s) {
  s.ask_element();
  if (request.options.method || why_exact(Knowledge::arguments, s) || !is_mpi_usable() || !env().ok())
    return {};
  const std::string* const kept = kept_rules(s.call.comm);
  const Result<Policy> rules = Policy::parse(kept != nullptr ? *kept : env()->policy);
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  (void)PMPI_Comm_get_name(s.call.comm, name, &length);
  const Rule* const rule = rules.ok() ? rules->rule_for(call_key_of(s, name)) : nullptr;
  const bool compresses = rule != nullptr && rule->method.codec != nullptr && !rule->method.chooses() &&
                          rule->method.scheme == nullptr;
  return compresses ? refuse_group(*request.call.group, rule->method) : Status{};
}

// The error of this rank, where the library must not act. Other ranks may not know that.
Status refuse_outside(const Call& call) {
  Status why = group_needs(*call.group, "MPI between MPI_Init and MPI_Finalize");
  return had_state(call.comm) ? why : CommState::decline(call.comm, why);
}

// What MPI could not do with a call that is left to it for what its communicator is. On one rank Open MPI
// copies from and to NULL. On several, an error of this rank alone would let the others wait.
Status check_left(const Request& request, Situation& s, Reason why) {
  const GroupCall* const group = request.call.group;
  if (why == Reason::inter && group != nullptr)  // the two sides would have to agree on the vectors
    return bad_argument(std::string(group->function) + ": comm is an intercommunicator");
  if (why != Reason::alone || !request.options.local_error.ok()) return {};
  MQ_TRY(check_arguments(s.call, element_of(s.call.datatype), false));
  return group == nullptr ? Status{} : check_rule_of_group(request, s);
}

// Finds the state of the communicator for the situation, and locks it. Collective at the first use. The
// decision may then be that MPI reduces.
Result<std::unique_lock<std::mutex>> obtain_state(const Request& request, Situation& s, Decision& decision) {
  if (s.state == nullptr) {
    const Result<CommState*> found = CommState::obtain(request.call.comm, CommState::Initial::environment);
    if (!found.ok()) return found.status();
    s.state = *found;
  }
  std::unique_lock<std::mutex> lock;
  if (s.state != nullptr) lock = std::unique_lock(s.state->mutex);
  if (!leave_if_known(Knowledge::first_use, s, decision) || request.call.group == nullptr) return lock;
  if (s.state == nullptr) return refuse_outside(request.call);
  return group_needs(*request.call.group, "ranks that run the same version of mpi_quant");
}

}  // namespace

Result<Decided> decide_requested(const Request& request) {
  Decided decided;
  Decision& decision = decided.decision;
  Situation s{request.call};
  s.ask_ranks();
  if (leave_if_known(Knowledge::ranks, s, decision)) {
    MQ_TRY(check_left(request, s, decision.reason));
    return decided;
  }
  const Result<std::unique_lock<std::mutex>> lock = obtain_state(request, s, decision);
  if (!lock.ok()) return lock.status();
  if (decision.reason != Reason::compressed) return decided;
  CommState& state = *s.state;
  decided.state = state.shared_from_this();
  const std::uint64_t number =
      state.policy.calls++;  // always, so that the ranks count alike even after an error
  s.ask_element();
  decision.key = request.options.key;
  if (leave_if_known(Knowledge::arguments, s, decision)) return decided;
  s.options = &request.options;
  s.is_blocking = request.is_blocking;
  CallKey call_key = call_key_of(s, state.policy.comm_name);
  call_key.number = number;
  s.call_key = &call_key;
  Chosen chosen;
  s.ask_auto(chosen);
  decision = decide(s);
  state.stats.declined_calls += decision.declined;
  return decided;
}

// The call of a function of this library.
Outcome requested_call(const Request& request) noexcept {
  return with_memory([&]() -> Outcome {
    const Result<Decided> decided = decide_requested(request);
    if (!decided.ok()) return failed(decided.status());
    const Decision& decision = decided->decision;
    const Status& local_error = request.options.local_error;
    if (decided->state == nullptr)
      return local_error.ok() ? left_to_mpi(decision.reason) : failed(local_error);
    return agree_and_run(*decided->state, request, decision, local_error);
  });
}

Outcome agree_and_run(CommState& state, const Request& request, const Decision& decision,
                      const Status& local_error) {
  std::optional<Turn> turn(std::in_place, state);
  const bool is_crowded = !turn->local_error().ok();
  ChoiceJudge judge;
  const auto prepare_judge = [&]() -> Status {
    const std::optional<kernels::Element> element = element_of(request.call.datatype);
    MQ_TRY(check_arguments(request.call, element, false));
    return judge.prepare(state, decision.chosen, request.call, *element);
  };
  Outcome outcome = run_blocking(state, request, decision, is_crowded ? turn->local_error() : local_error,
                                 [&](CallRun& run, Status error) {
                                   Decision made = is_crowded ? decision.without_key() : decision;
                                   if (error.ok() && decision.chosen.choice.judged)
                                     error = made.leave_if_no_memory(prepare_judge());
                                   run.prepare(request, made, std::move(error));
                                 });
  if (!decision.chosen.choice.judged) return outcome;
  turn.reset();  // judging calls MPI
  return judge.judge(state, decision.chosen, request.call, std::move(outcome));
}

Outcome run_part(CommState& state, const Turn&, const Call& call, const Method& method) {
  Request request{.call = call};
  request.options.method = method;
  request.options.is_part = true;
  Decision decision;
  decision.method = method;
  return run_blocking(state, request, decision, {},
                      [&](CallRun& run, Status error) { run.prepare(request, decision, std::move(error)); });
}

// Decides by what all ranks know. True if MPI reduces.
bool ProgramCall::decide_together() {
  Situation& s = situation_;
  call_key_ = call_key_of(s, state_->policy.comm_name);
  s.call_key = &call_key_;
  if (call_key_.bytes >= state_->policy.rules.floor_bytes()) {
    call_key_.number = state_->policy.calls++;
    identity_.begin(*state_, *request_.program);
    s.said = identity_.said();
  }
  s.prospect = state_->policy.rules.prospect(call_key_);
  is_advisable_ = state_->policy.mode == Mode::advise && call_key_.bytes >= kFloorBytes;
  if (state_->policy.mode == Mode::on) s.ask_auto(chosen_);
  if (decision_.reason != Reason::compressed || leave_if_known(Knowledge::all_ranks, s, decision_))
    return true;
  if (state_->policy.mode == Mode::on) return false;
  (void)decision_.leave_if_no_memory(decide_here(false));
  // What auto would choose shows only when it may measure.
  if (decision_.reason == Reason::compressed || state_->policy.rules.choose(call_key_).chooses())
    decision_.leave_to_mpi(Reason::would_be_compressed);
  return true;
}

// Decides by what only this rank knows, and gets what calls of programs need beside what acquire.cpp gets.
// protects: the call is to run. An error means that this rank lacks memory.
Status ProgramCall::decide_here(bool protects) noexcept {
  try {
    Situation& s = situation_;
    const bool is_watched = request_.program->watched;
    if (is_watched || s.prospect.by_site) site_ = request_.program->site();
    call_key_.site = site_;
    decision_ = decide(s);
    state_->stats.declined_calls += decision_.declined;
    if (is_watched && decision_.rule != nullptr && decision_.rule->method.chooses()) {
      if (!decision_.method.exact()) method_ = to_string(decision_.method);
    } else if (is_watched && decision_.rule != nullptr && !decision_.rule->method.exact()) {
      method_ = action_text(*decision_.rule);
    }
    if (!protects) return {};
    if (decision_.reason == Reason::guard) identity_.find_held(*state_, s, decision_);
    if (decision_.reason != Reason::compressed) return {};
    identity_.find(*state_, s, decision_);
    if (leave_if_known(Knowledge::residual, s, decision_)) return {};
    if (chosen_.choice.judged) MQ_TRY(judge_.prepare(*state_, chosen_, s.call, *s.element));
    return guard_.acquire(*state_, s, identity_.flushes(), decision_);
  } catch (const std::bad_alloc&) {
    guard_.drop(*state_);
    decision_.chosen = chosen_;  // so that it brings to the agreement what its class knows
    return {Code::no_memory, "out of memory"};
  }
}

Outcome ProgramCall::run() noexcept {
  return with_memory([&]() -> Outcome {
    {
      const Result<std::unique_lock<std::mutex>> lock = obtain_state(request_, situation_, decision_);
      if (!lock.ok()) return failed(lock.status());
      state_ = situation_.state;
      if (state_ == nullptr || decide_together()) {
        if (state_ != nullptr) ++state_->stats.calls;
        Outcome outcome = left_to_mpi(decision_.reason);
        outcome.clock = clock_of(chosen_, false);
        outcome.begin_s = chosen_.begin_s;
        return outcome;
      }
    }
    return run_decided();
  });
}

Outcome ProgramCall::run_decided() {
  std::optional<Turn> turn(std::in_place, *state_);
  std::optional<MPIQ_Stats> before;
  // decision_ is not made yet. It never is a scheme: a program states no matrix.
  Outcome outcome = run_blocking(*state_, request_, {}, turn->local_error(), [&](CallRun& run, Status error) {
    before = state_->stats;
    if (error.ok()) error = decision_.leave_if_no_memory(decide_here(true));
    run.prepare(request_, decision_, std::move(error));
  });
  if (before) {
    const std::scoped_lock lock(state_->mutex);
    const MPIQ_Stats& now = state_->stats;
    work_ = {now.wire_bytes_sent - before->wire_bytes_sent, now.overflows - before->overflows,
             now.encode_s - before->encode_s, now.decode_s - before->decode_s, now.wait_s - before->wait_s};
    identity_.settle(*state_, outcome, decision_);
    guard_.settle(*state_, request_, outcome);
  }
  turn.reset();  // the guard calls MPI, which may call a handler of the program
  outcome = judge_.judge(*state_, chosen_, request_.call, std::move(outcome));
  return guard_.judge(*state_, request_, decision_, std::move(outcome));
}

}  // namespace mq
