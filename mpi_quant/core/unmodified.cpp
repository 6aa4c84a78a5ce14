#include "mpi_quant/core/unmodified.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/comm_state.hpp"

namespace mq {
namespace {

// Sends the sum and the residual exactly: raw leaves nothing out. The ranks have to agree on it.
void send_all(Decision& decision) {
  decision.method = {};
  decision.method.codec = &raw_codec();
  decision.method.params = kernels::preset_params(raw_codec());
  decision.agreed_options_hash = ~decision.agreed_options_hash;
}

}  // namespace

void CallIdentity::begin(CommState& state, const Program& program) {
  said_ = program.control();
  named_ = program.take_key();
  state.intercepted.identities.begin_call(said_.step);
}

Sender CallIdentity::sender(const Situation& s, const Decision& decision) const {
  const Method& method = decision.method;
  const bool gathers = !adds(s.call.collective);
  const bool mirrors = gathers && !method.exact() && method.memory_rule().mirrors;
  const auto arrays = static_cast<std::size_t>(method.exact() ? 1 : method.memory_rule().arrays);
  return {static_cast<const std::byte*>(s.call.input()),
          s.call.input_range().n,
          *s.element,
          named_.view(),
          said_.step,
          said_.flush,
          mirrors ? 1 : std::max<std::size_t>(1, arrays),
          gathers,
          mirrors ? static_cast<std::size_t>(s.call.count) : 0};
}

void CallIdentity::find(CommState& state, const Situation& s, Decision& decision) {
  // auto with a limit for each result keeps no residual.
  if (s.automatic != nullptr && s.automatic->kind != Automatic::Kind::feedback) return;
  const kernels::MemoryRule& rule = decision.method.memory_rule();
  const Sender who = sender(s, decision);
  if ((who.input == nullptr && (who.count > 0 || who.mirrored == 0)) || rule.arrays == 0) return;
  const Identities::Found found = state.intercepted.identities.identify(
      decision.rule->safeguards.feedback, who, state.residuals, env()->residual_bytes);
  // Estimates go on from call to call. A vector that is not known for certain would start them again each
  // time.
  const bool guesses = rule.keeps_estimates && found.what == FeedbackOutcome::unconfirmed;
  decision.key = guesses ? Key() : found.key;
  feedback_ = found.what;
  if (found.flushed == nullptr || *found.flushed == said_.flush) return;
  if (who.mirrored > 0) return;  // nothing waits in an estimate
  flushed_ = found.flushed;
  send_all(decision);
}

void CallIdentity::find_held(CommState& state, const Situation& s, Decision& decision) {
  decision.key = state.intercepted.identities.held(decision.rule->safeguards.feedback, sender(s, decision),
                                                   state.residuals);
  delivers_held_ = !decision.key.empty();
  if (delivers_held_) send_all(decision);
}

void CallIdentity::settle(CommState& state, const Outcome& outcome, const Decision& decision) {
  if (outcome.without_memory)
    feedback_ = FeedbackOutcome::unconfirmed;  // of another rank, if not of this one
  if (!outcome.status.ok()) return;
  // If the ranks did not agree to flush, the residual waits on.
  if (flushed_ != nullptr) *flushed_ = said_.flush;
  // The residual was delivered. Or other ranks have no residual for this call, and it would wait for ever.
  if (delivers_held_) state.residuals.drop(decision.key.view());
}

Status CallGuard::acquire(CommState& state, const Situation& s, bool flushes, Decision& decision) {
  asked_ = decision.rule->safeguards;
  kind_ = decision.kind;
  is_counted_ = asked_.guard > 0 && !flushes;
  if (asked_.guard == 0 || kernels::element_bytes(*s.element) < sizeof(float)) return {};
  Guard& guard = state.intercepted.guards[kind_];
  // A flush delivers what calls of the window left out, so the window can no longer be judged.
  if (flushes) return guard.window.reset(), Status{};
  const Call& call = s.call;
  const bool captured = is_captured(call.input()) || is_captured(call.recvbuf);
  // During a capture the copies of the guard would be an error. acquire.cpp leaves such calls to MPI.
  if (!plan(guard, s, decision, captured) || captured) return {};
  // The ranks have to agree on judging this call only. If some judge it and others do not, it is exact.
  decision.agreed_options_hash =
      Hash{}.add(decision.agreed_options_hash).add(window_ != nullptr ? window_->hash() : 0).value();
  const Residuals::Entry* const entry =
      decision.key.empty() ? nullptr : state.residuals.find(decision.key.view());
  Status kept = guarded_.prepare(call, *s.element, entry, window_);
  is_judged_ = kept.ok();
  return kept;
}

// True if this call is judged: either alone, or as the last call of a window. It joins its window here.
bool CallGuard::plan(Guard& guard, const Situation& s, const Decision& decision, bool captured) {
  const std::string_view key = decision.key.view();
  if (key.empty()) return guard.calls >= guard.next_alone;
  constexpr std::uint64_t kForgotten = 4096;  // calls without the residual of a window, until it is dropped
  const auto count = static_cast<std::size_t>(s.call.count);
  if (guard.window != nullptr && guard.calls - guard.window->last_number() > kForgotten) guard.window.reset();
  if (guard.window == nullptr) guard.window = GuardWindow::open(key, count, *s.element);
  if (guard.window == nullptr || !guard.window->is_of(key, count, *s.element)) return false;
  if (captured || !guard.window->add_input(guard.calls, s.call.input()).ok()) {
    guard.window.reset();
    return false;
  }
  window_ = guard.window.get();
  if (window_->calls() < asked_.guard) return false;
  own_ = std::move(guard.window);  // however this call ends, the window is over
  return true;
}

void CallGuard::drop(CommState& state) noexcept {
  if (window_ != nullptr && own_ == nullptr) state.intercepted.guards[kind_].window.reset();
  is_judged_ = is_counted_ = false;
}

void CallGuard::settle(CommState& state, const Request& request, const Outcome& outcome) {
  constexpr std::uint64_t kMostSplits = 3;
  if (!is_counted_) return;
  const bool is_split = outcome.reason == Reason::split;
  Guard& guard = state.intercepted.guards[kind_];
  guard.calls += outcome.ran;  // the same on all ranks, also if it failed on some
  const bool is_alone = is_judged_ && window_ == nullptr;
  if (is_alone) guard.splits = is_split ? guard.splits + 1 : 0;
  // If some ranks have a residual and others do not, those that would judge alone never agree. They stop
  // trying for a while.
  if (is_alone && (outcome.ran || guard.splits == kMostSplits)) {
    guard.next_alone = guard.calls - outcome.ran + asked_.guard;
    guard.splits = 0;
  }
  // All ranks that have a window drop it. Windows that began at different calls never end at the same call.
  if (is_split) guard.window.reset();
  if (guard.window == nullptr || window_ != guard.window.get()) return;
  const bool added = outcome.ran && outcome.status.ok() &&
                     window_->add_result(request.call.recvbuf, request.call.output_range().n).ok();
  if (!added) guard.window.reset();
}

Outcome CallGuard::judge(CommState& state, const Request& request, const Decision& decision,
                         Outcome outcome) {
  if (!outcome.ran || !is_judged_) return outcome;
  const Result<GuardResult> result =
      guarded_.judge(request.call, outcome, asked_.error, asked_.feedback != Identity::off);
  if (!result.ok()) return failed(result.status());
  error_ = result->error;
  if (!result->replaced) return outcome;
  const std::scoped_lock lock(state.mutex);
  if (result->given_up) state.intercepted.guards[kind_].tripped = true;
  if (!decision.key.empty()) state.residuals.drop(decision.key.view());
  return replaced(std::move(outcome), result->delivered, result->given_up ? Reason::guard : Reason::failed);
}

}  // namespace mq
