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

#include <limits>
#include <new>

#include "mpi_quant/agree.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/errors.hpp"
#include "mpi_quant/execute.hpp"

namespace mq {
namespace {

bool can_share(const Call& call) {
  if (call.comm == MPI_COMM_NULL || call.count < 0) return false;
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(call.comm, &inter) != MPI_SUCCESS || inter) return false;
  return PMPI_Comm_size(call.comm, &size) == MPI_SUCCESS && size > 1;
}

Status check_buffers(const Call& call) {
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
  MQ_TRY(check_buffers(call));
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
  p.execution.emplace(state.comm, job, state.scratch.data());
  return {};
}

void count_run(MPIQ_Stats& stats, const Job& job, const Tally& tally) {
  ++stats.compressed_calls;
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

// From method to result. An exact method only agrees; the caller then lets MPI reduce.
Status reduce(const Call& call, const Wishes& wishes, std::optional<kernels::Element> element, Method method,
              CommState& state) {
  const std::uint64_t bytes =
      element ? static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*element) : 0;
  if (!method.exact() && method.plan == nullptr) method.plan = &choose_plan(bytes, state.comm.size());
  Prepared p;
  p.method = method;
  p.trouble = wishes.trouble;
  fill_signature(p, call, element, wishes.key, state);
  if (p.trouble.ok() && !method.exact()) {
    try {
      p.trouble = prepare_run(p, call, *element, wishes.key, state);
    } catch (const std::bad_alloc&) {
      p.trouble = {Code::no_memory, "no memory to prepare the call"};
    }
  }
  p.signature.trouble = static_cast<std::uint16_t>(p.trouble.code());
  const Status agreed = agree(state.comm, p.signature, state.stats.messages_sent);
  if (!agreed.ok() || !p.trouble.ok()) state.residuals.forget_unused(wishes.key);
  MQ_TRY(p.trouble);
  MQ_TRY(agreed);
  if (method.exact()) return {};
  if (!wishes.key.empty()) (*state.residuals.acquire(wishes.key, p.job.count, *element))->used = true;
  Tally tally;
  const Status status = p.execution->run(tally);
  count_run(state.stats, p.job, tally);
  return status;
}

// The method of a call that a codec could serve, and mpi for all others.
Method choose(const Call& call, std::optional<kernels::Element> element, const std::optional<Method>& wish,
              const CommState& state) {
  const bool eligible = element && call.op == MPI_SUM && call.count > 0 && state.stats.exact_mode != 2;
  if (!eligible) return {};
  if (wish) return *wish;
  if (state.stats.exact_mode != 0) return {};
  const std::uint64_t bytes = static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*element);
  return state.policy.choose(bytes, state.comm.size(), *element);
}

int finish(const Call& call, const Status& status, bool exact, CommState& state) {
  if (!status.ok()) {
    ++state.stats.failed_calls;
    return raise(call.comm, status);
  }
  return exact ? exact_allreduce(call) : MPI_SUCCESS;
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

int exact_allreduce(const Call& call) {
#if MPI_VERSION >= 4
  if (call.count > std::numeric_limits<int>::max())
    return PMPI_Allreduce_c(call.sendbuf, call.recvbuf, call.count, call.datatype, call.op, call.comm);
#else
  if (call.count > std::numeric_limits<int>::max())
    return raise(call.comm, {Code::bad_argument, "count " + std::to_string(call.count) +
                                                     " is more than this MPI library can reduce exactly"});
#endif
  return PMPI_Allreduce(call.sendbuf, call.recvbuf, static_cast<int>(call.count), call.datatype, call.op,
                        call.comm);
}

int intercepted_allreduce(const Call& call) {
  const std::optional<kernels::Element> element = element_of(call.datatype);
  const bool eligible =
      element && call.op == MPI_SUM &&
      call.count >= kInterceptFloorBytes / static_cast<MPI_Count>(kernels::element_bytes(*element)) &&
      can_share(call);
  if (!eligible) return exact_allreduce(call);
  const Result<CommState*> state = CommState::obtain(call.comm);
  if (!state.ok()) return raise(call.comm, state.status());
  CommState& s = **state;
  ++s.stats.calls;
  const Method method = choose(call, element, {}, s);
  if (method.exact()) return exact_allreduce(call);
  return finish(call, reduce(call, {}, element, method, s), false, s);
}

int requested_allreduce(const Call& call, const Wishes& wishes) {
  if (!can_share(call)) return wishes.trouble.ok() ? exact_allreduce(call) : raise(call.comm, wishes.trouble);
  const Result<CommState*> state = CommState::obtain(call.comm);
  if (!state.ok()) return raise(call.comm, state.status());
  CommState& s = **state;
  ++s.stats.calls;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  const Method method = choose(call, element, wishes.method, s);
  return finish(call, reduce(call, wishes, element, method, s), method.exact(), s);
}

}  // namespace mq
