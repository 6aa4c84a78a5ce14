// One blocking allreduce from top to bottom:
//
//   decide    policy or info -> method: codec, parameters, plan                   decide.hpp
//   operate   prepare, agree, run                                                 call_run.hpp
//   conclude  the result, the error, or MPI's own reduction if the call is exact  this file

#include "mpi_quant/core/allreduce.hpp"

#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/scheme.hpp"
#include "mpi_quant/core/turn.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {
namespace {

bool is_half(std::optional<kernels::Element> element) {
  return element && kernels::element_bytes(*element) == 2;
}

// A sum of half-type vectors without elements: there is nothing to do, and MPI would refuse the type.
bool is_empty_half(const Call& call) {
  return call.count == 0 && call.op == MPI_SUM && is_half(element_of(call.datatype));
}

// For a communicator without messages, because MPI has no communicator left for the library. The sum is exact
// if no rank asked for a method itself and MPI can add the type. Otherwise it is an error. The ranks agree on
// that over the program's own communicator.
Outcome without_messages(const Call& call, const CallOptions& options) {
  const std::optional<kernels::Element> element = element_of(call.datatype);
  Status local_error;
  std::string facts;
  try {
    local_error = options.local_error;
    if (local_error.ok()) local_error = check_arguments(call, element, false);
    if (local_error.ok() && ((options.method && !options.method->exact()) || is_half(element)))
      local_error = no_communicator();
    facts =
        "count " + std::to_string(call.count) + (element ? " " + std::string(name(*element)) : " other type");
    facts.push_back('\0');
  } catch (const std::bad_alloc&) {
    local_error = {Code::no_memory, "out of memory"};
  }
  const Status agreed = collective_check(call.comm, local_error, facts, wait_in_call);
  return {agreed, agreed.ok()};
}

// Runs the blocking call of a communicator that prepare() prepares.
template <class Prepare>
Outcome run_blocking(CommState& state, const Call& call, const CallOptions& options, const Prepare& prepare) {
  bool is_active = false;
  {
    const std::scoped_lock lock(state.mutex);
    state.stats.calls += !options.is_part;
    if (!state.broken.ok()) return {state.broken, false};
    const Result<bool> active = state.activate(call.comm, options.may_fall_back ? Use::messages : Use::all);
    if (!active.ok()) return {active.status(), false};
    is_active = *active;
    if (is_active) {
      prepare();
      state.blocking.start();
    }
  }
  if (!is_active) return options.may_fall_back ? Outcome{{}, true} : without_messages(call, options);
  complete(state.blocking);
  const std::scoped_lock lock(state.mutex);
  state.blocking.release();
  return state.blocking.outcome();
}

}  // namespace

Outcome operate(CommState& state, const Call& call, const CallOptions& options, const Method& method) {
  const Turn turn(state);
  CallOptions refused;
  refused.local_error = turn.local_error();
  refused.may_fall_back = options.may_fall_back;
  const CallOptions& wanted = refused.local_error.ok() ? options : refused;
  return run_blocking(state, call, wanted, [&] { state.blocking.prepare(call, wanted, method); });
}

Outcome open_scheme(CommState& state, const Turn& turn, const Call& call, CallOptions options,
                    const Signature& signature, std::uint64_t& calls) {
  if (Status crowded = turn.local_error(); !crowded.ok()) options.local_error = std::move(crowded);
  Outcome outcome = run_blocking(
      state, call, options, [&] { state.blocking.prepare_meeting(signature, options.local_error, calls); });
  if (outcome.status.ok() && !outcome.exact) calls = state.blocking.agreed_maxima().calls;
  return outcome;
}

Outcome run_part(CommState& state, const Turn&, const Call& call, const Method& method, Status local_error) {
  CallOptions options;
  options.local_error = std::move(local_error);
  options.method = method;
  options.is_part = true;
  return run_blocking(state, call, options, [&] { state.blocking.prepare(call, options, method); });
}

Status start_exact(const Call& call, MPI_Comm comm, MPI_Request& request) {
  if (is_empty_half(call)) {
    request = MPI_REQUEST_NULL;
    return {};
  }
#if MPI_VERSION >= 4
  const int code =
      real_mpi().iallreduce_c(call.sendbuf, call.recvbuf, call.count, call.datatype, call.op, comm, &request);
#else
  const int code = call.count > std::numeric_limits<int>::max()
                       ? MPI_ERR_COUNT
                       : real_mpi().iallreduce(call.sendbuf, call.recvbuf, static_cast<int>(call.count),
                                               call.datatype, call.op, comm, &request);
#endif
  return mpi_status(code, "MPI_Iallreduce");
}

Result<bool> copies_alone(const Call& call) {
  int inter = 0, size = 0;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  bool alone = (element || is_nameless_half(call.datatype)) && call.op == MPI_SUM && call.count >= 0 &&
               PMPI_Comm_test_inter(call.comm, &inter) == MPI_SUCCESS && !inter &&
               PMPI_Comm_size(call.comm, &size) == MPI_SUCCESS && size == 1;
  if (alone && !is_nameless_half(call.datatype)) {
    alone = false;
    for (const void* p : {call.sendbuf, static_cast<const void*>(call.recvbuf)}) {
      if (alone || p == MPI_IN_PLACE || p == nullptr) continue;
      const Result<bool> there = is_on_device(p);
      if (!there.ok()) return there.status();
      alone = *there;
    }
  }
  const std::size_t width = element ? kernels::element_bytes(*element) : 2;
  if (alone && call.sendbuf != MPI_IN_PLACE && call.count > 0)
    MQ_TRY(copy_now(call.recvbuf, call.sendbuf, width * static_cast<std::size_t>(call.count)));
  return alone;
}

Outcome requested_allreduce(const Call& call, const CallOptions& options) noexcept {
  return with_memory([&]() -> Outcome {
    const Result<Decision> decision = decide_requested(call, options);
    if (!decision.ok()) return {decision.status(), false};
    if (decision->state == nullptr) return {options.local_error, options.local_error.ok()};
    if (decision->method.scheme != nullptr)
      return run_scheme(*decision->state, call, options, decision->method);
    return operate(*decision->state, call, decided(options, *decision), decision->method);
  });
}

int exact_allreduce(const Call& call, std::optional<kernels::Element> element) {
  if (element) {
    const Result<bool> copied = copies_alone(call);
    if (!copied.ok() || *copied) return raise(call.comm, copied.status());
  }
  if (call.count > std::numeric_limits<int>::max()) {
#if MPI_VERSION >= 4
    return real_mpi().allreduce_c(call.sendbuf, call.recvbuf, call.count, call.datatype, call.op, call.comm);
#else
    return raise(call.comm, {Code::bad_argument, "count " + std::to_string(call.count) +
                                                     " is more than this MPI library can reduce exactly"});
#endif
  }
  return real_mpi().allreduce(call.sendbuf, call.recvbuf, static_cast<int>(call.count), call.datatype,
                              call.op, call.comm);
}

int conclude(const Call& call, const Outcome& outcome) {
  if (outcome.status.ok() && is_empty_half(call)) return MPI_SUCCESS;
  return outcome.status.ok() && outcome.exact ? exact_allreduce(call, element_of(call.datatype))
                                              : raise(call.comm, outcome.status);
}

}  // namespace mq
