// One allreduce from top to bottom:
//
//   classify  is it a sum of floats on an intracommunicator of at least two ranks?     else MPI's own
//   state     the communicator's private duplicate, policy, residuals                  made at the first use
//   choose    policy or info -> method; a method -> codec row and plan
//   prepare   scratch, residual, execution: everything that can fail on one rank alone
//   agree     all ranks compare their call's signature and hear of trouble             else an error on all
//   ranks run       the executor
//
// Every decision up to the agreement is a function of values equal on all ranks; whatever is local becomes
// `trouble` in the signature, never a different path.

#include "mpi_quant/allreduce.hpp"

#include <chrono>
#include <limits>
#include <new>

#include "mpi_quant/agree.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/errors.hpp"
#include "mpi_quant/execute.hpp"

namespace mq {
namespace {

// An intracommunicator of at least two ranks; the same answer on all of them.
bool can_share(const Call& call) {
  if (call.comm == MPI_COMM_NULL) return false;
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(call.comm, &inter) != MPI_SUCCESS || inter) return false;
  return PMPI_Comm_size(call.comm, &size) == MPI_SUCCESS && size > 1;
}

// What MPI would refuse; checked before the agreement, so that it is an error on all ranks.
Status check_arguments(const Call& call, bool predefined) {
  if (call.count < 0) return {Code::bad_argument, "count " + std::to_string(call.count) + " is negative"};
  if (!predefined || call.count == 0) return {};  // MPI_BOTTOM may be NULL
  if (call.recvbuf == nullptr) return {Code::bad_argument, "recvbuf is NULL"};
  if (call.recvbuf == MPI_IN_PLACE) return {Code::bad_argument, "recvbuf is MPI_IN_PLACE"};
  if (call.sendbuf == nullptr) return {Code::bad_argument, "sendbuf is NULL"};
  return {};
}

// A call that has a method, on its way through prepare, agree and run.
struct Prepared {
  Method method;
  Job job;
  Signature signature;
  Status trouble;
  std::optional<Execution<MpiComm>> execution;
};

void fill_signature(Prepared& p, const Call& call, std::optional<kernels::Element> element,
                    std::string_view key, CommState& state) {
  p.signature.count = static_cast<std::uint64_t>(call.count);
  p.signature.element = element ? static_cast<std::uint8_t>(*element) : kOtherElement;
  p.signature.sequence = state.sequence++;
  p.signature.key = hash_of_key(key);
  if (p.method.exact()) return;
  p.signature.codec = p.method.codec->id;
  p.signature.params_hash = hash_of(p.method.params);
  p.signature.plan = p.method.plan->id;
}

// Everything a compressed call needs on this rank; the first thing that is missing becomes its trouble.
Status prepare_run(Prepared& p, const Call& call, kernels::Element element, std::string_view key,
                   CommState& state) {
  Job& job = p.job;
  job.plan = &state.plan(*p.method.plan);
  job.codec = p.method.codec;
  job.ops = p.method.codec->ops(element, env()->isa);
  job.params = p.method.params;
  job.element = element;
  job.count = static_cast<std::size_t>(call.count);
  job.input = static_cast<const std::byte*>(call.sendbuf == MPI_IN_PLACE ? call.recvbuf : call.sendbuf);
  job.output = static_cast<std::byte*>(call.recvbuf);
  job.call = hash_of(p.signature);
  if (!key.empty()) {
    const Result<Residuals::Entry*> entry = state.residuals.acquire(key, job.count, element);
    if (!entry.ok()) return entry.status();
    job.residual = (*entry)->buffer.data();
  }
  const std::size_t scratch_bytes = Execution<MpiComm>::scratch_bytes(job);
  if (!state.scratch.reserve(scratch_bytes))
    return {Code::no_memory, "no memory for " + std::to_string(scratch_bytes) + " bytes of scratch"};
  p.execution.emplace(*state.comm, job, state.scratch.data());
  return {};
}

void count_run(MPIQ_Stats& stats, const Job& job, const Tally& tally) {
  stats.elements += job.count;
  stats.raw_bytes += job.count * kernels::element_bytes(job.element);
  stats.wire_bytes_sent += tally.sent_bytes;
  stats.wire_bytes_received += tally.received_bytes;
  stats.messages_sent += tally.messages_sent;
  stats.nonfinite += tally.nonfinite;
  stats.encode_s += tally.encode_s;
  stats.decode_s += tally.decode_s;
  stats.wait_s += tally.wait_s;
}

// All ranks learn whether all can go on; on success the call may touch residuals and wait for frames.
Status agree_on(const Prepared& p, CommState& state) {
  const auto start = std::chrono::steady_clock::now();
  const Status agreed = agree(*state.comm, p.signature, state.hellos, state.stats.messages_sent);
  state.stats.wait_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (agreed.code() == Code::mpi_failed) state.set_broken(agreed);
  MQ_TRY(p.trouble);  // this rank's own words first
  return agreed;
}

// Runs what was prepared and agreed on.
Status run(Prepared& p, std::string_view key, CommState& state) {
  if (!key.empty()) (*state.residuals.acquire(key, p.job.count, p.job.element))->used = true;
  Tally tally;
  const Status status = p.execution->run(tally);
  count_run(state.stats, p.job, tally);
  if (status.ok()) {
    ++state.stats.compressed_calls;
  } else {
    state.residuals.drop(key);  // part of it may belong to a result that nobody got
    if (status.code() == Code::mpi_failed) state.set_broken(status);
  }
  return status;
}

// From method to result. An exact method only agrees; MPI reduces.
Status reduce(const Call& call, const Wishes& wishes, std::optional<kernels::Element> element, Method method,
              CommState& state) {
  MQ_TRY(state.broken);
  MQ_TRY(state.activate(call.comm));
  if (!method.exact() && method.plan == nullptr) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*element);
    method.plan = &choose_plan(bytes, state.comm->size());
  }
  Prepared p;
  p.method = method;
  p.trouble = wishes.trouble;
  fill_signature(p, call, element, wishes.key, state);
  try {
    if (p.trouble.ok()) p.trouble = check_arguments(call, element.has_value());
    if (p.trouble.ok() && !method.exact()) p.trouble = prepare_run(p, call, *element, wishes.key, state);
  } catch (const std::bad_alloc&) {
    p.trouble = {Code::no_memory, "out of memory"};  // short enough to need none
  }
  p.signature.trouble = static_cast<std::uint16_t>(p.trouble.code());
  const Status agreed = agree_on(p, state);
  if (!agreed.ok()) {
    state.residuals.drop_unused(wishes.key);
    return agreed;
  }
  return method.exact() ? Status{} : run(p, wishes.key, state);
}

// The method of a call that a codec could serve, and mpi for all others.
Method choose(const Call& call, std::optional<kernels::Element> element, const std::optional<Method>& wish,
              const CommState& state) {
  const bool eligible = element && call.op == MPI_SUM && call.count > 0 && state.stats.exact_mode != 2;
  if (!eligible) return {};
  if (wish) return *wish;
  if (state.stats.exact_mode != 0) return {};
  const std::uint64_t bytes = static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*element);
  int size = 0;
  (void)PMPI_Comm_size(call.comm, &size);
  return state.policy.choose(bytes, size, *element);
}

Outcome intercept(const Call& call) {
  const std::optional<kernels::Element> element = element_of(call.datatype);
  const bool eligible =
      element && call.op == MPI_SUM &&
      call.count >= kInterceptFloorBytes / static_cast<MPI_Count>(kernels::element_bytes(*element)) &&
      can_share(call);
  if (!eligible) return {{}, true};
  const Result<CommState*> found = CommState::obtain(call.comm, CommState::Initial::environment);
  if (!found.ok()) return {found.status(), false};
  CommState* const state = *found;
  if (state == nullptr) return {{}, true};
  ++state->stats.calls;
  const Method method = choose(call, element, {}, *state);
  if (method.exact()) return {{}, true};
  Outcome outcome{reduce(call, {}, element, method, *state), false};
  state->stats.failed_calls += !outcome.status.ok();
  return outcome;
}

Outcome request(const Call& call, const Wishes& wishes) {
  CommState* state = nullptr;
  if (can_share(call)) {
    const Result<CommState*> found = CommState::obtain(call.comm, CommState::Initial::environment);
    if (!found.ok()) return {found.status(), false};
    state = *found;
  }
  // Alone, or with ranks that could not even read our messages: nothing to agree on.
  if (state == nullptr || state->stats.exact_mode == 2) return {wishes.trouble, wishes.trouble.ok()};
  ++state->stats.calls;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  const Method method = choose(call, element, wishes.method, *state);
  Outcome outcome{reduce(call, wishes, element, method, *state), method.exact()};
  state->stats.failed_calls += !outcome.status.ok();
  return outcome;
}

// MPI's own reduction.
int exact_allreduce(const Call& call) {
  if (call.count > std::numeric_limits<int>::max()) {
#if MPI_VERSION >= 4
    return PMPI_Allreduce_c(call.sendbuf, call.recvbuf, call.count, call.datatype, call.op, call.comm);
#else
    return raise(call.comm, {Code::bad_argument, "count " + std::to_string(call.count) +
                                                     " is more than this MPI library can reduce exactly"});
#endif
  }
  return PMPI_Allreduce(call.sendbuf, call.recvbuf, static_cast<int>(call.count), call.datatype, call.op,
                        call.comm);
}

// The exception boundary: whatever ran short of memory is an error like any other.
template <class F>
Outcome guarded(const F& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return {{Code::no_memory, "out of memory"}, false};
  }
}

}  // namespace

std::optional<kernels::Element> element_of(MPI_Datatype datatype) {
  struct Known {
    MPI_Datatype type;
    kernels::Element element;
  };
  const Known table[]{{MPI_FLOAT, kernels::Element::f32}, {MPI_DOUBLE, kernels::Element::f64},
                      {MPI_REAL, kernels::Element::f32},  {MPI_DOUBLE_PRECISION, kernels::Element::f64},
                      {MPI_REAL4, kernels::Element::f32}, {MPI_REAL8, kernels::Element::f64}};
  if (datatype == MPI_DATATYPE_NULL) return {};
  for (const auto& [type, element] : table) {
    if (datatype != type) continue;
    int bytes = 0;  // MPI_REAL is whatever the MPI library's Fortran was configured with
    const bool right = PMPI_Type_size(type, &bytes) == MPI_SUCCESS &&
                       static_cast<std::size_t>(bytes) == kernels::element_bytes(element);
    return right ? std::optional(element) : std::nullopt;
  }
  return {};
}

Outcome intercepted_allreduce(const Call& call) noexcept {
  return guarded([&] { return intercept(call); });
}

Outcome requested_allreduce(const Call& call, const Wishes& wishes) noexcept {
  return guarded([&] { return request(call, wishes); });
}

int conclude(const Call& call, const Outcome& outcome) {
  return outcome.status.ok() && outcome.exact ? exact_allreduce(call) : raise(call.comm, outcome.status);
}

}  // namespace mq
