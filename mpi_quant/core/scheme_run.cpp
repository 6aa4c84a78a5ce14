#include "mpi_quant/core/scheme_run.hpp"

#include <string>
#include <utility>

#include "mpi_quant/base/float_mode.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/mean.hpp"

namespace mq {
namespace {

Signature signature_of_scheme(const Request& request, const Method& method, bool rehearsal) {
  const Call& call = request.call;
  Signature signature;
  signature.codec = kScheme;
  signature.plan = method.scheme->id;
  signature.count = static_cast<std::uint64_t>(call.count);
  signature.element = static_cast<std::uint8_t>(*element_of(call.datatype));
  if (call.divisor != 1) signature.element |= kMean;
  if (rehearsal) signature.kind = kInit;
  signature.key = hash_of_key(request.options.key.view());
  signature.params_hash = Hash{}
                              .add(method.scheme_params.value)
                              .add(method.plan == nullptr ? 0 : static_cast<int>(method.plan->id))
                              .add(request.options.matrix.rows)
                              .value();
  return signature;
}

}  // namespace

void SchemeRun::prepare(const Request& request, const Decision& decision, Status local_error,
                        bool rehearsal) noexcept {
  call_ = request.call;
  key_ = decision.key;
  rehearsal_ = rehearsal;
  has_begun_ = is_done_ = false;
  part_ = failed_part_ = 0;
  failure_ = outcome_ = {};
  part_request_.options.is_part = true;
  part_request_.options.method = part_decision_.method = decision.method;
  part_request_.options.method->scheme = part_decision_.method.scheme = nullptr;
  if (local_error.ok()) local_error = guarded_status([&] { return prepare_steps(request, decision); });
  const std::uint64_t calls = local_error.ok() ? steps_->calls() : 0;
  run_.prepare_meeting(signature_of_scheme(request, decision.method, rehearsal), std::move(local_error),
                       calls);
}

Status SchemeRun::prepare_steps(const Request& request, const Decision& decision) {
  if (scheme_ != decision.method.scheme) {
    const SchemeEntry* const entry = SchemeEntry::find(*decision.method.scheme);
    if (entry == nullptr)
      return bad_argument("this library has no scheme " + std::string(decision.method.scheme->name));
    steps_ = entry->make(state());
    scheme_ = decision.method.scheme;
  }
  MQ_TRY(check_arguments(call_, element_of(call_.datatype), false));
  MQ_TRY(steps_->prepare(call_, request.options.matrix, decision));
  if (!rehearsal_) return {};
  // The starts of a persistent request are to allocate nothing.
  for (const Call& part : steps_->parts()) {
    part_request_.call = part;
    run_.prepare(part_request_, part_decision_, {}, true);
    MQ_TRY(run_.local_error());
  }
  return {};
}

void SchemeRun::start() noexcept {
  position_ = state().order.next();
  run_.start_part(position_, 0, 0);
  (void)advance();
}

bool SchemeRun::advance() noexcept {
  bool moved = !is_done_ && run_.advance();
  while (!is_done_ && run_.done()) {
    moved = true;
    go_on();
  }
  return moved;
}

void SchemeRun::abandon() noexcept {
  is_abandoned_ = true;
  run_.abandon();
}

// A part is over.
void SchemeRun::go_on() noexcept {
  Outcome last = run_.outcome();
  run_.release();
  Status local_error;
  const SchemePart part = part_after(last, local_error);
  if (part.call == nullptr) return finish(std::move(last));
  ++part_;
  part_request_.call = *part.call;
  run_.prepare(part_request_, part_decision_, std::move(local_error));
  run_.start_part(position_, static_cast<std::uint32_t>(part_), part.measured);
}

// The part that follows one with this outcome. None: `last` is the outcome of the call.
SchemePart SchemeRun::part_after(Outcome& last, Status& local_error) noexcept {
  if (part_ == 0) {
    if (!last.delivered || rehearsal_) return {};
    has_begun_ = last.ran = true;
    position_.past_turn = true;  // MPI reduces no part
  }
  if (!failure_.status.ok()) {  // the other ranks know by now
    last = std::move(failure_);
    return {};
  }
  if (is_abandoned_ && last.status.ok()) last.status = RunningCall::abandoned();
  if (!last.status.ok() && !last.ran) return {};  // all ranks know
  const Maxima& agreed = run_.agreed_maxima();
  SchemePart part;
  if (part_ == 0 && !last.status.ok()) {
    part.call = &steps_->parts()[0];  // the caller's vectors may be gone
  } else {
    const DefaultFloats mode;
    part = part_ == 0 ? steps_->begin(agreed.calls) : steps_->next(!last.status.ok(), agreed.measured[0]);
  }
  if (last.status.ok() || part.call == nullptr) return part;
  local_error = last.status;
  failure_ = std::move(last);
  failed_part_ = part_;
  return part;
}

void SchemeRun::finish(Outcome outcome) noexcept {
  state().order.leave(position_);
  // The text of a part names a call that the user has not made.
  if (!outcome.status.ok() && part_ > 0)
    outcome.status = status_of(outcome.status.code(), [&] {
      const std::size_t part = failed_part_ > 0 ? failed_part_ : part_;
      return std::string(scheme_->name) + ", part " + std::to_string(part) + " of a call of " +
             std::to_string(call_.count) + " elements: " + outcome.status.text();
    });
  if (has_begun_) {
    if (outcome.status.ok()) outcome.status = divide_result(call_);
    MPIQ_Stats& stats = state().stats;
    ++stats.scheme_calls;
    stats.failed_calls += !outcome.status.ok();
    count_compressed(stats, static_cast<std::size_t>(call_.count), *element_of(call_.datatype),
                     outcome.status.ok());
  }
  outcome_ = std::move(outcome);
  is_done_ = true;
}

void SchemeRun::release() noexcept {
  if (steps_ != nullptr) steps_->release(key_, !outcome_.status.ok());
}

}  // namespace mq
