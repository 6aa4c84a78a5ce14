#include "mpi_quant/core/running_call.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/estimates.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/real_mpi.hpp"

namespace mq {

RunningCall::RunningCall(CommState& state, Exact exact)
    : state_(state), exact_(exact), vectors_(state.scratch.devices) {}

RunningCall::~RunningCall() { state_.scratch.host_bytes -= held_bytes_; }

Status RunningCall::abandoned() noexcept {
  return status_of(Code::peer_failed, [] { return "not completed before MPI_Finalize"; });
}

void RunningCall::start() noexcept {
  own_position_ = state_.order.next();
  begin(own_position_);
}

// A part has a signature of its own, so a rank that is in another part by mistake gets an error.
void RunningCall::start_part(QueuePosition& position, std::uint32_t part, double measured) noexcept {
  signature_.params_hash ^= mixed(part);  // mixed(0) is 0
  maxima_.measured = {measured};
  begin(position);
}

void RunningCall::begin(QueuePosition& position) noexcept {
  position_ = &position;
  signature_.sequence = position.number;
  reduction_.call = hash_of(signature_);
  for_each_entry([&](Residuals::Entry& entry) {
    ++entry.users;
    maxima_.calls = std::max(maxima_.calls, entry.calls);
  });
  stage_ = Stage::queued;
  (void)advance();
}

void RunningCall::abandon() noexcept {
  abandoned_ = true;
  if (stage_ == Stage::running) execution_.give_up(abandoned());
}

bool RunningCall::advance() noexcept {
  bool moved = false;
  const Status status = step(moved);
  if (!status.ok() &&
      stage_ != Stage::done) {  // the communication failed: no message can be trusted any more
    state_.set_broken(status);
    vectors_.settle();
    finish(status, false);
  }
  return moved;
}

// A returned error means that the communication failed.
Status RunningCall::step(bool& moved) {
  if (stage_ == Stage::queued) MQ_TRY(enter(moved));
  if (stage_ == Stage::agreeing) {
    MQ_TRY(agreement_.advance(state_.channel.comm(), state_.stats.messages_sent, moved));
    if (agreement_.done()) MQ_TRY(agreed(moved));
  }
  if (stage_ == Stage::turn) MQ_TRY(take_turn(moved));
  if (stage_ == Stage::reducing) {
    if (exact_calls_are_over())
      finish(exact_error_.ok() ? divide_result(call_) : std::move(exact_error_), true);
    moved = moved || done();
  }
  if (stage_ == Stage::running) {
    MQ_TRY(execution_.advance(state_.channel.comm(), tally_, moved));
    if (execution_.done()) {
      bool over = true;
      Status status = vectors_.deliver(execution_.failure(), over);
      moved = moved || over;
      if (over) finish(std::move(status), true);
    }
  }
  return {};
}

Status RunningCall::enter(bool& moved) {
  MQ_TRY(state_.broken);
  if (position_->window < 0 && !state_.order.enter(*position_)) return {};
  moved = true;
  stage_ = Stage::agreeing;
  reduction_.first_tag = state_.channel.first_tag(position_->window);
  return agreement_.start(state_.channel.comm(), signature_, maxima_,
                          reduction_.first_tag + CallOrder::kTagsPerWindow - 1);
}

// Why MPI reduces after all, by what the ranks have told each other.
std::optional<Reason> RunningCall::why_exact_now(bool is_split) const {
  const Heard& heard = agreement_.summary().maxima.heard;
  if (is_split) return disagree(decision_.chosen, heard), Reason::split;
  if (rehearsal_) return {};
  return hear(decision_.chosen, heard, follows_choice(decision_), signature_.sequence);
}

// All ranks know whether all can go on. If so, the call may touch residuals and wait for frames.
Status RunningCall::agreed(bool& moved) {
  moved = true;
  const bool is_split = splits(agreement_.summary());
  const Status agreed = is_split ? Status{} : agreed_status(agreement_.summary());
  if (!agreed.ok()) {
    forget_unused_keys();
    finish(local_error_.ok() ? agreed : local_error_, false);  // this rank's own error has precedence
    return {};
  }
  if (const auto why = why_exact_now(is_split)) {
    forget_unused_keys();
    decision_.leave_to_mpi(*why);
  }
  if (rehearsal_ || (decision_.method.exact() && exact_ == Exact::by_caller)) {
    finish({}, rehearsal_);
  } else if (decision_.method.exact()) {
    stage_ = Stage::turn;
  } else {
    MQ_TRY(settle_parameters());
    stage_ = Stage::running;
    position_->past_turn = true;
    bool sends = true;
    Status settled = settle_estimates(reduction_, vectors_, entry_, agreement_.summary().maxima, sends);
    if (sends) MQ_TRY(execution_.start(state_.channel.comm()));
    if (!settled.ok()) execution_.give_up(std::move(settled));
    if (abandoned_) execution_.give_up(abandoned());
  }
  return {};
}

// If the first call with a key fails, the key is not bound to the call's count and type. entry_ and entries_
// do not say which keys these are: acquiring may have failed after the residual was made.
void RunningCall::forget_unused_keys() {
  if (call_.group == nullptr) return forget_unused_key(residual_name());
  release();  // the call fails, or MPI makes it: it uses no residual any more
  for (const GroupCall::Vector& vector : call_.group->vectors)
    if (has_residual(vector)) forget_unused_key(vector.key.view());
}

void RunningCall::forget_unused_key(std::string_view name) {
  Residuals::Entry* const e = state_.residuals.find(name);
  if (e == nullptr || e->users != (entry_ != nullptr ? 1 : 0)) return;
  if (e->used) return e->shrink();
  state_.residuals.drop(name);
  entry_ = nullptr;
}

// Whether the keys of several vectors have a meaning in this call.
bool RunningCall::keeps_residuals() const {
  const Method& method = decision_.method;
  return !decision_.ignores_keys && !method.exact() && method.memory_rule().arrays > 0;
}

bool RunningCall::has_residual(const GroupCall::Vector& vector) const {
  return !vector.key.empty() && vector.n > 0 && keeps_residuals();
}

// The measured parameter and the key of random numbers are what the ranks agreed on. The parameter stays with
// the key.
Status RunningCall::settle_parameters() {
  const Maxima& maxima = agreement_.summary().maxima;
  reduction_.random_key = random_key(signature_, maxima, state_.channel.first_rank());
  for_each_entry([&](Residuals::Entry& entry) {
    if (!reduction_.memory.rule->keeps_estimates) entry.end_estimates();
    entry.used = true;
    entry.agreed_arrays = 0;
    entry.calls = maxima.calls + 1;
  });
  const kernels::Measures when = reduction_.codec->measures(reduction_.params);
  if (when == kernels::Measures::nothing) return {};
  reduction_.params = reduction_.codec->settle(reduction_.params, maxima.measured);
  if (when == kernels::Measures::once_a_key && entry_ != nullptr && maxima.measured[0] > 0 && !from_program_)
    entry_->settled = maxima.measured[0];  // nothing can be measured on zeros: then the next call tries again
  return {};
}

// prepare() has reserved memory for the requests.
Status RunningCall::start_exact_calls() {
  exact_requests_.clear();
  const auto start = [&](const Call& one) {
    MPI_Request& request = exact_requests_.emplace_back(MPI_REQUEST_NULL);
    Status started = start_exact(one, state_.channel.comm().handle(), request);
    if (!started.ok()) request = MPI_REQUEST_NULL;
    return started;
  };
  if (call_.group == nullptr) return start(call_);
  for (std::size_t i = 0; i < call_.group->vectors.size(); ++i) {
    const Call one = call_of(call_, i);
    if (one.count > 0) MQ_TRY(start(one));
  }
  return {};
}

// After an error of MPI nothing more can be asked about a call. The others of a group still write into their
// vectors, so the whole goes on until they are over.
bool RunningCall::exact_calls_are_over() {
  for (MPI_Request& request : exact_requests_) {
    int flag = 1;
    const int code = PMPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && !flag) return false;
    if (code != MPI_SUCCESS) request = MPI_REQUEST_NULL;
    if (code != MPI_SUCCESS && exact_error_.ok())
      exact_error_ = mpi_status(code, call_.parted == nullptr ? "MPI_Iallreduce" : starting_name(call_));
  }
  return true;
}

Status RunningCall::take_turn(bool& moved) {
  if (!state_.order.may_reduce(*position_)) return {};
  // What all ranks are refused for is an error of this call. After any other error MPI's calls on this
  // communicator may no longer meet the calls of the other ranks.
  exact_error_ = start_exact_calls();
  if (!exact_error_.ok() && exact_error_.code() != Code::bad_argument) return std::exchange(exact_error_, {});
  stage_ = Stage::reducing;
  position_->past_turn = true;
  moved = true;
  return {};
}

void RunningCall::finish(Status status, bool delivered) {
  if (position_ == &own_position_) state_.order.leave(own_position_);
  MPIQ_Stats& stats = state_.stats;
  if (stage_ == Stage::running) {
    add(stats, tally_);
    if (!is_part_) count_compressed(stats, reduction_.count, reduction_.element, status.ok());
    if (!status.ok())
      restart_residual();
    else if (reduction_.memory.keeps_estimates())
      keep_estimates(reduction_, *entry_);
  } else {
    vectors_.settle();  // waits for copies that are no longer needed
  }
  stats.failed_calls += !status.ok() && !is_part_;
  const Reason reason = status.ok() ? decision_.reason : Reason::failed;
  outcome_ = {std::move(status), delivered, reason, stage_ == Stage::running && state_.broken.ok()};
  if (decision_.chosen.calls != nullptr) tell_time();
  const double seconds = share_.end();
  if (!decision_.chosen.teaches && !rehearsal_ && outcome_.status.ok() && delivered)
    took_of_program(decision_.chosen, outcome_.ran, seconds);
  const Reduction& r = reduction_;
  outcome_.without_memory = outcome_.ran && r.memory.rule->keeps_estimates && r.memory.ops == nullptr;
  if (outcome_.ran && r.codec->exact_sums && r.residual == nullptr && entries_.empty())
    outcome_.promised = r.size * r.codec->absolute_bound(r.params, r.size) / r.divisor;
  stage_ = Stage::done;
}

// For auto: how long the codecs took, or who is to be told how long MPI will take from now on.
void RunningCall::tell_time() {
  const Chosen& chosen = decision_.chosen;
  if (outcome_.ran && outcome_.status.ok()) took(chosen);
  if (outcome_.ran || !chosen.teaches) return;
  outcome_.clock = clock_of(chosen, true);
  outcome_.begin_s = now_s();
}

void RunningCall::drop_residual() {
  state_.residuals.drop(residual_name());
  entry_ = nullptr;
}

// The call failed while it ran. Part of the residual may belong to a result that nobody got, so it becomes
// zero. Other ranks may not have failed, so what all ranks know about the key stays.
void RunningCall::restart_residual() {
  if (from_program_ && entry_ != nullptr) return drop_residual();
  for_each_entry([](Residuals::Entry& entry) { entry.restart(); });
}

void RunningCall::rest() noexcept {
  vectors_.give_back();
  count_memory();
}

void RunningCall::release() noexcept {
  for_each_entry([](Residuals::Entry& entry) { --entry.users; });
  entry_ = nullptr;
  entries_.clear();
}

}  // namespace mq
