// The bodies of the MPIQ_ functions. They take arguments and return MPI error codes; allreduce.cpp and
// comm_state.cpp do the work.

#include <cstddef>
#include <mutex>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/core/requests.hpp"
#include "mpi_quant/core/sized.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {
namespace {

constexpr MPI_Count kMaxCount = MPI_Count{1} << 58;  // up to here no codec's bound overflows

// Of a payload. Calls of rules with estimates may have several messages in one, and are exact now and then.
std::size_t bound_of(const Method& method, std::size_t n, kernels::Element element) {
  Reduction reduction;
  reduction.codec = method.codec;
  reduction.params = method.params;
  reduction.element = element;
  const kernels::MemoryRule& rule = method.memory_rule();
  reduction.memory.rule = &rule;
  reduction.memory.ops = rule.ops == nullptr ? nullptr : rule.ops(element, kernels::Isa::scalar);
  reduction.memory.terms = rule.terms(method.memory_params);
  const PlanIndex plan_index;
  reduction.plan_index = &plan_index;
  return wire_bound(reduction, n);
}

Status wire_bound(const char* method_text, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes) {
  if (method_text == nullptr || bytes == nullptr) return {Code::bad_argument, "method or bytes is NULL"};
  if (count < 0) return {Code::bad_argument, "count " + std::to_string(count) + " is negative"};
  const Result<Method> method = parse_method(method_text);
  if (!method.ok()) return method.status();
  if (method->chooses())
    return {Code::bad_argument,
            "auto has no bound of its own: ask for the bounds of the methods it may choose"};
  const std::optional<Reals> reals = reals_of(datatype, Types::derived);
  if (!reals) return {Code::bad_argument, std::string("datatype must be ") + kAcceptedTypes};
  if (count > kMaxCount / static_cast<MPI_Count>(reals->each))
    return {Code::bad_argument, "count " + std::to_string(count) + " is more than 2^58 reals"};
  const std::size_t n = static_cast<std::size_t>(count) * reals->each;
  *bytes = static_cast<MPI_Count>(method->exact() ? n * kernels::element_bytes(reals->element)
                                                  : bound_of(*method, n, reals->element));
  return {};
}

Status get_stats(MPI_Comm comm, MPIQ_Stats* stats) {
  if (stats == nullptr) return {Code::bad_argument, "MPIQ_Comm_get_stats: stats is NULL"};
  constexpr std::size_t kFirst = offsetof(MPIQ_Stats, wait_s) + sizeof(double);
  MQ_TRY(check_size<MPIQ_Stats>(stats->size, kFirst, "MPIQ_Comm_get_stats: MPIQ_Stats", "MPIQ_STATS_INIT"));
  MPIQ_Stats now{};
  if (CommState* const state = find_state(comm)) {
    const std::scoped_lock lock(state->mutex);
    now = state->stats;
    if (now.exact_mode == MPIQ_EXACT_NONE && state->channel.was_refused())
      now.exact_mode = MPIQ_EXACT_NO_COMM;
    now.residual_bytes = state->residuals.bytes();
    now.scratch_bytes = state->scratch.bytes();
  }
  write_sized(stats, stats->size, now);
  return {};
}

Status set_policy(MPI_Comm comm, const char* rules) {
  int inter = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return {Code::bad_argument, "MPIQ_Comm_set_policy: comm is an intercommunicator"};
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  // On one rank nothing is ever compressed: the rules are kept for what a group refuses.
  if (size == 1) return is_mpi_usable() ? keep_rules(comm, rules) : Policy::parse(rules).status();
  Meeting meeting;
  MQ_TRY(meeting.open(comm, "MPIQ_Comm_set_policy", CommState::Initial::no_rules));
  if (meeting.state() == nullptr)
    return {Code::bad_argument, "MPIQ_Comm_set_policy: MPI is not initialised, or being finalized"};
  return meeting.state()->set_policy(comm, rules);
}

int half_type(kernels::Element half, MPI_Datatype* datatype) {
  if (!mpi_fits()) return raise(MPI_COMM_SELF, misfit());
  if (datatype == nullptr) return raise(MPI_COMM_SELF, {Code::bad_argument, "datatype is NULL"});
  if (const Status status = watch_finalize(); !status.ok()) return raise(MPI_COMM_SELF, status);
  const Result<MPI_Datatype> made = half_datatype(half);
  if (made.ok()) *datatype = *made;
  return raise(MPI_COMM_SELF, made.status());
}

// A matrix of pairs, or of rows of reals, stored column by column, is one of reals with longer columns.
Request allreduce_request(const Call& given, MPI_Info info, bool is_blocking) {
  Request request{.call = given, .is_blocking = is_blocking};
  request.options = read_options(info, given.count);
  const auto each = static_cast<std::int64_t>(count_in_reals(request.call, Types::derived));
  MatrixShape& matrix = request.options.matrix;
  matrix.rows *= each;
  matrix.ld *= each;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (matrix.ld > kMost && request.options.local_error.ok())
    request.options.local_error = {Code::bad_info, "info mpiq_matrix: more than 2^31 reals in a column"};
  take_mean(request.call, request.options);
  return request;
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" {

int MPIQ_Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Info info) {
  if (!mpi_fits()) return raise(comm, misfit());
  const Call given{sendbuf, recvbuf, count, datatype, op, comm};
  const Request request = allreduce_request(given, info, true);
  return answer(request.call, requested_call(request));
}

int MPIQ_Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                    MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  const Call given{sendbuf, recvbuf, count, datatype, op, comm};
  return raise(comm, guarded_status([&] {
                 return start_once(allreduce_request(given, info, false), "MPIQ_Iallreduce", request);
               }));
}

int MPIQ_Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                        MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  const Call given{sendbuf, recvbuf, count, datatype, op, comm};
  return raise(comm, guarded_status([&] {
                 return make_persistent(allreduce_request(given, info, false), "MPIQ_Allreduce_init",
                                        request);
               }));
}

int MPIQ_Start(MPIQ_Request* request) {
  Handler handler;
  const Status status = guarded_status([&] { return start(request, handler); });
  return raise(handler, status);
}

int MPIQ_Test(MPIQ_Request* request, int* flag) {
  Handler handler;
  const Status status = guarded_status([&] { return test(request, flag, handler); });
  return raise(handler, status);
}

int MPIQ_Wait(MPIQ_Request* request) {
  Handler handler;
  const Status status = guarded_status([&] { return wait(request, handler); });
  return raise(handler, status);
}

int MPIQ_Request_free(MPIQ_Request* request) {
  Handler handler;
  const Status status = guarded_status([&] { return request_free(request, handler); });
  return raise(handler, status);
}

int MPIQ_Type_float16(MPI_Datatype* datatype) { return half_type(kernels::Element::f16, datatype); }

int MPIQ_Type_bfloat16(MPI_Datatype* datatype) { return half_type(kernels::Element::bf16, datatype); }

int MPIQ_Comm_set_policy(MPI_Comm comm, const char* rules) {
  return raise(comm, guarded_status([&] { return set_policy(comm, rules ? rules : ""); }));
}

int MPIQ_Comm_get_stats(MPI_Comm comm, MPIQ_Stats* stats) {
  if (!mpi_fits()) return raise(comm, misfit());
  return raise(comm, guarded_status([&] { return get_stats(comm, stats); }));
}

int MPIQ_Wire_bound(const char* method, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes) {
  return raise(MPI_COMM_SELF, guarded_status([&] { return wire_bound(method, count, datatype, bytes); }));
}

int MPIQ_Get_version(int* major, int* minor, int* patch) {
  if (major) *major = MPIQ_VERSION_MAJOR;
  if (minor) *minor = MPIQ_VERSION_MINOR;
  if (patch) *patch = MPIQ_VERSION_PATCH;
  return MPI_SUCCESS;
}

}  // extern "C"
