#include "mpi_quant/core/call_run.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/estimates.hpp"
#include "mpi_quant/core/real_mpi.hpp"

namespace mq {
namespace {

Status abandoned() noexcept {
  return status_of(Code::peer_failed, [] { return "not completed before MPI_Finalize"; });
}

}  // namespace

CallRun::CallRun(CommState& state, Exact exact)
    : state_(state), exact_(exact), vectors_(state.scratch.devices) {}

CallRun::~CallRun() { state_.scratch.host_bytes -= held_bytes_; }

void CallRun::prepare(const Call& call, const CallOptions& options, Method method, bool rehearsal) noexcept {
  call_ = call;
  key_ = options.key;
  method_ = method;
  rehearsal_ = rehearsal;
  may_fall_back_ = options.may_fall_back;
  is_part_ = options.is_part;
  order_ = {env().ok() ? env()->cuda_sync : DeviceSync::legacy, options.stream.has_value(),
            options.stream.value_or(nullptr)};
  stream_ordered_ = options.stream_ordered;
  safeguards_ = options.safeguards;
  may_skip_ = options.skip;
  local_error_ = {};
  outcome_ = {};
  tally_ = {};
  maxima_ = {.seed = options.seed.value_or(env().ok() ? env()->seed : 0)};
  reduction_.residual = nullptr;
  holds_key_ = false;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  if (!method_.exact() && method_.plan == nullptr) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*element);
    method_.plan = &choose_plan(bytes, state_.channel.comm().size());
  }
  if (!method_.exact() && method_.memory_rule().arrays == 0) key_ = {};  // the key has no meaning
  try {
    local_error_ = options.local_error;
    // What happens with an unmodified program's overlapping vectors is left to MPI.
    if (may_fall_back_ && overlaps(call, element)) fall_back(Reason::overlap);
    if (local_error_.ok()) local_error_ = check_arguments(call, element, may_fall_back_);
    if (local_error_.ok() && !method_.exact()) local_error_ = prepare_run(element);
    // Where memory for this library is missing, MPI may still have enough.
    if (local_error_.code() == Code::no_memory && may_fall_back_ && options.local_error.ok()) {
      local_error_ = {};
      fall_back(Reason::no_memory);
    }
  } catch (const std::bad_alloc&) {
    local_error_ = {Code::no_memory, "out of memory"};  // short enough to need no memory
  }
  sign(element);
  stage_ = Stage::idle;
}

void CallRun::prepare_meeting(const Signature& signature, Status local_error, std::uint64_t calls) noexcept {
  CallOptions options;
  options.local_error = std::move(local_error);
  prepare({nullptr, nullptr, 0, MPI_BYTE, MPI_SUM, MPI_COMM_NULL}, options, {}, true);
  signature_ = signature;
  signature_.error_code = static_cast<std::uint16_t>(local_error_.code());
  maxima_.calls = calls;
}

// Gets all that a compressed call needs on this rank. The first thing that is missing becomes its local
// error.
Status CallRun::prepare_run(std::optional<kernels::Element> element) {
  const Channel::Program& program = state_.channel.program(*method_.plan, *element, method_.encodes_own());
  Reduction& reduction = reduction_;
  reduction.plan = &program.plan;
  reduction.facts = &program.facts;
  reduction.codec = method_.codec;
  reduction.ops = method_.codec->ops(*element, env()->isa);
  reduction.convert = kernels::convert(*element, env()->isa);
  reduction.params = method_.params;
  const kernels::MemoryRule& rule = method_.memory_rule();
  reduction.memory = {&rule, rule.ops == nullptr ? nullptr : rule.ops(*element, env()->isa),
                      method_.memory_params, 1, rule.terms(method_.memory_params)};
  reduction.element = *element;
  reduction.count = static_cast<std::size_t>(call_.count);
  if (outgrows_vectors(reduction))
    return {Code::bad_argument, std::string(reduction.codec->name) + " with these parameters" +
                                    (reduction.memory.messages() > 1 ? ", in two messages," : "") +
                                    " sends more than the vector, if that has elements of type " +
                                    std::string(name(*element))};
  reduction.raw_ops = may_be_raw(reduction) ? raw_codec().ops(*element, env()->isa) : nullptr;
  if (rule.ops != nullptr && key_.empty() && !may_fall_back_)
    return {Code::bad_argument,
            "memory=" + std::string(rule.name) + " needs the name of the vector (info mpiq_key)"};
  reduction.input =
      static_cast<const std::byte*>(call_.sendbuf == MPI_IN_PLACE ? call_.recvbuf : call_.sendbuf);
  reduction.output = static_cast<std::byte*>(call_.recvbuf);
  reduction.rank = state_.channel.comm().rank();
  reduction.size = state_.channel.comm().size();
  std::tie(reduction.pipelines, reduction.tag_segments) = state_.channel.segments_of(program.plan);
  reduction.threads = env()->threads;
  MQ_TRY(vectors_.locate(reduction, device_rows(mpi_takes_device_memory)));
  if (vectors_.is_captured(order_)) return refuse_capture();
  const kernels::Measures when = reduction.codec->measures(reduction.params);
  bool measures = when != kernels::Measures::nothing && !rehearsal_;
  if (!key_.empty()) MQ_TRY(prepare_residual(when, measures));
  if (Execution<MpiComm>::frame_bytes(reduction) > std::numeric_limits<int>::max())
    return {Code::bad_argument, "a message of this method would be longer than 2 GiB"};
  std::byte* scratch = nullptr;
  Status prepared = prepare_memory(when != kernels::Measures::nothing, scratch);
  count_memory();
  MQ_TRY(std::move(prepared));
  if (measures) MQ_TRY(vectors_.measure(reduction, maxima_.facts));
  if (!rehearsal_)
    MQ_TRY(bring_memory(reduction, vectors_, state_.residuals.find(key_.view()), may_skip_, maxima_));
  execution_.prepare(reduction, scratch);
  return {};
}

// Gets the residual of the key, and the measured parameter that is kept with it.
Status CallRun::prepare_residual(kernels::Measures when, bool& measures) {
  MQ_TRY(place_residual());
  // A key that only this rank knows settles nothing for the others.
  if (when != kernels::Measures::once_a_key || may_fall_back_) return {};
  const double settled = state_.residuals.find(key_.view())->settled;
  if (settled <= 0) return {};
  reduction_.params = reduction_.codec->settle(reduction_.params, {settled});
  measures = false;
  return {};
}

// Puts the residual into the memory that the reduction reads. If the device has no room for it, the reduction is staged
// through host memory. If that fails too, a key that only this rank knows is dropped.
Status CallRun::place_residual() {
  Reduction& reduction = reduction_;
  reduction.residual = nullptr;
  const auto place = [&]() -> Status {
    Device* const device = vectors_.residual_device();
    const Result<Residuals::Entry*> entry = state_.residuals.acquire(
        key_.view(), reduction.count, reduction.element,
        static_cast<std::size_t>(reduction.memory.rule->arrays), vectors_.api(), device);
    if (!entry.ok()) return entry.status();
    if ((*entry)->users > 0)
      return {Code::bad_argument,
              "mpiq_key \"" + std::string(key_.view()) + "\" is in use by a call in flight"};
    // On the host once the ranks have agreed.
    if (device != nullptr && !reduction.memory.rule->keeps_estimates) (*entry)->end_estimates();
    MQ_TRY((*entry)->move_to(vectors_.api(), device));
    reduction.residual = (*entry)->data();
    return {};
  };
  Status placed = place();
  if (placed.code() == Code::no_memory && vectors_.residual_device() != nullptr) {
    vectors_.stage(reduction);
    placed = place();
  }
  if (placed.code() == Code::device_failed && may_fall_back_)
    placed = place();  // the residual may have gone with the context of its device
  if (placed.ok() || !may_fall_back_ || placed.code() == Code::bad_argument) return placed;
  key_ = {};
  return {};
}

// Gets scratch memory. If the reduction has to be staged only now, its residual moves to the host, too.
Status CallRun::prepare_memory(bool measures, std::byte*& scratch) {
  Reduction& reduction = reduction_;
  const bool was_there = vectors_.is_on_device();
  MQ_TRY(vectors_.prepare(reduction, {order_, stream_ordered_, rehearsal_, measures,
                                      Execution<MpiComm>::scratch_bytes(reduction)}));
  if (vectors_.is_on_device()) {
    scratch = vectors_.frames();
    return {};
  }
  if (was_there && reduction.residual != nullptr) MQ_TRY(place_residual());
  const std::size_t bytes = Execution<MpiComm>::scratch_bytes(reduction);
  if (!scratch_.reserve(bytes))
    return {Code::no_memory, "no memory for " + std::to_string(bytes) + " bytes of scratch"};
  scratch = scratch_.data();
  return {};
}

// Refuses a call during a capture: the library could launch nothing that is not recorded in the program's
// graph. The call of an unmodified program is left to MPI, which may report an error itself.
Status CallRun::refuse_capture() {
  if (!may_fall_back_)
    return {Code::bad_argument, "the calling thread is capturing a stream: a graph cannot hold this call"};
  fall_back(Reason::capture);
  return {};
}

void CallRun::count_memory() {
  const std::size_t bytes = scratch_.bytes() + vectors_.bytes();
  state_.scratch.host_bytes += bytes - std::exchange(held_bytes_, bytes);
}

void CallRun::sign(std::optional<kernels::Element> element) {
  signature_ = {};
  signature_.count = static_cast<std::uint64_t>(call_.count);
  signature_.element = element ? static_cast<std::uint8_t>(*element) : kOtherElement;
  signature_.key = may_fall_back_ ? 0 : hash_of_key(key_.view());
  if (may_fall_back_)
    signature_.kind = kIntercepted;
  else if (rehearsal_)
    signature_.kind = kInit;
  else if (method_.exact() && exact_ == Exact::here)
    signature_.kind = kNonblocking;
  signature_.error_code = static_cast<std::uint16_t>(local_error_.code());
  if (method_.exact()) return;
  signature_.codec = method_.codec->id;
  signature_.params_hash =
      hash_of(local_error_.ok() ? reduction_.params : method_.params) ^ memory_hash(method_) ^ safeguards_;
  signature_.plan = static_cast<std::uint8_t>(method_.plan->id);
  signature_.memory = method_.memory_rule().id;
}

void CallRun::start() noexcept {
  signature_.sequence = state_.order.next_number();
  reduction_.call = hash_of(signature_);
  Residuals::Entry* const entry =
      reduction_.residual != nullptr ? state_.residuals.find(key_.view()) : nullptr;
  holds_key_ = entry != nullptr;
  if (holds_key_) {
    ++entry->users;
    maxima_.calls = entry->calls;
  }
  stage_ = Stage::queued;
  position_ = {};
  entered_ = false;
  (void)advance();
}

void CallRun::abandon() noexcept {
  abandoned_ = true;
  if (stage_ == Stage::running) execution_.give_up(abandoned());
}

bool CallRun::advance() noexcept {
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
Status CallRun::step(bool& moved) {
  if (stage_ == Stage::queued) MQ_TRY(enter(moved));
  if (stage_ == Stage::agreeing) {
    MQ_TRY(agreement_.advance(state_.channel.comm(), state_.stats.messages_sent, moved));
    if (agreement_.done()) MQ_TRY(agreed(moved));
  }
  if (stage_ == Stage::turn) MQ_TRY(take_turn(moved));
  if (stage_ == Stage::reducing) {
    int flag = 0;
    const int code = PMPI_Test(&exact_request_, &flag, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || flag) finish(mpi_status(code, "MPI_Iallreduce"), false);
    moved = moved || done();
  }
  if (stage_ == Stage::running) {
    MQ_TRY(execution_.advance(state_.channel.comm(), tally_, moved));
    if (execution_.done()) {
      bool over = true;
      Status status = vectors_.deliver(execution_.failure(), over);
      moved = moved || over;
      if (over) finish(std::move(status), false);
    }
  }
  return {};
}

Status CallRun::enter(bool& moved) {
  MQ_TRY(state_.broken);
  const int window = state_.order.enter(position_, signature_.sequence);
  if (window < 0) return {};
  moved = true;
  entered_ = true;
  stage_ = Stage::agreeing;
  reduction_.first_tag = state_.channel.first_tag(window);
  return agreement_.start(state_.channel.comm(), signature_, maxima_,
                          reduction_.first_tag + CallOrder::kTagsPerWindow - 1);
}

// All ranks know whether all can go on. If so, the call may touch residuals and wait for frames.
Status CallRun::agreed(bool& moved) {
  const Status verdict = mq::agreed_status(agreement_.summary());
  moved = true;
  if (splits(agreement_.summary())) {
    forget_unused_key();
    finish({}, true);
    outcome_.split = true;
  } else if (!verdict.ok()) {
    forget_unused_key();
    finish(local_error_.ok() ? verdict : local_error_, false);  // this rank's own error has precedence
  } else if (rehearsal_ || (method_.exact() && exact_ == Exact::by_caller)) {
    finish({}, method_.exact() && !rehearsal_);
  } else if (method_.exact()) {
    stage_ = Stage::turn;
  } else {
    MQ_TRY(settle_parameters());
    stage_ = Stage::running;
    position_.past_turn = true;
    bool sends = true;
    Status settled = settle_estimates(reduction_, vectors_, state_.residuals.find(key_.view()),
                                      agreement_.summary().maxima, sends);
    if (sends) MQ_TRY(execution_.start(state_.channel.comm()));
    if (!settled.ok()) execution_.give_up(std::move(settled));
    if (abandoned_) execution_.give_up(abandoned());
  }
  return {};
}

// If the first call with a key fails, the key is not bound to the call's count and type.
void CallRun::forget_unused_key() {
  Residuals::Entry* const e = state_.residuals.find(key_.view());
  if (e == nullptr || e->users != (holds_key_ ? 1 : 0)) return;
  e->used ? e->shrink() : state_.residuals.drop(key_.view());
}

// The measured parameter and the key of random numbers are what the ranks agreed on. The parameter stays with the key.
Status CallRun::settle_parameters() {
  Residuals::Entry* const entry = key_.empty() ? nullptr : state_.residuals.find(key_.view());
  const Maxima& maxima = agreement_.summary().maxima;
  reduction_.random_key = random_key(signature_, maxima, state_.channel.first_rank());
  if (entry != nullptr) {
    if (!reduction_.memory.rule->keeps_estimates) entry->end_estimates();
    entry->used = true;
    entry->agreed_arrays = 0;
    entry->calls = maxima.calls + 1;
  }
  const kernels::Measures when = reduction_.codec->measures(reduction_.params);
  if (when == kernels::Measures::nothing) return {};
  reduction_.params = reduction_.codec->settle(reduction_.params, maxima.facts);
  if (when == kernels::Measures::once_a_key && entry != nullptr && maxima.facts[0] > 0 && !may_fall_back_)
    entry->settled = maxima.facts[0];  // nothing can be measured on zeros: then the next call tries again
  return {};
}

Status CallRun::take_turn(bool& moved) {
  if (!state_.order.may_reduce(signature_.sequence)) return {};
  MQ_TRY(start_exact(call_, state_.channel.comm().handle(), exact_request_));
  stage_ = Stage::reducing;
  position_.past_turn = true;
  moved = true;
  return {};
}

void CallRun::finish(Status status, bool exact) {
  if (entered_) state_.order.leave(signature_.sequence);
  MPIQ_Stats& stats = state_.stats;
  if (stage_ == Stage::running) {
    add(stats, tally_);
    if (!is_part_) count_compressed(stats, reduction_.count, reduction_.element, status.ok());
    if (!status.ok())
      restart_residual();
    else if (reduction_.memory.keeps_estimates())
      keep_estimates(reduction_, *state_.residuals.find(key_.view()));
  } else {
    vectors_.settle();  // waits for copies that are no longer needed
  }
  stats.failed_calls += !status.ok() && !is_part_;
  outcome_ = {std::move(status), exact, false, outcome_.fell_back,
              stage_ == Stage::running && state_.broken.ok()};
  const Reduction& r = reduction_;
  outcome_.without_memory = outcome_.ran && r.memory.rule->keeps_estimates && r.memory.ops == nullptr;
  if (outcome_.ran && r.codec->exact_sums && r.residual == nullptr)
    outcome_.promised = r.size * r.codec->absolute_bound(r.params, r.size);
  stage_ = Stage::done;
}

// The call failed while it ran. Part of the residual may belong to a result that nobody got, so it becomes
// zero. Other ranks may not have failed, so what all ranks know about the key stays.
void CallRun::restart_residual() {
  if (may_fall_back_)
    state_.residuals.drop(key_.view());
  else if (Residuals::Entry* const entry = state_.residuals.find(key_.view()))
    entry->restart();
}

void CallRun::release() noexcept {
  if (!std::exchange(holds_key_, false)) return;
  if (Residuals::Entry* const entry = state_.residuals.find(key_.view())) --entry->users;
}

}  // namespace mq
