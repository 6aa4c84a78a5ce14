// The bodies of the MPIQ_ functions: arguments in, allreduce.cpp or comm_state.cpp does the work, MPI error
// codes out.

#include <cstring>

#include "mpi_quant.h"
#include "mpi_quant/allreduce.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/errors.hpp"

namespace mq {
namespace {

constexpr MPI_Count kMaxCount = MPI_Count{1} << 58;  // no bound of a codec overflows below

Status read_key(const char* key, const std::string& value, Wishes& wishes) {
  if (std::strcmp(key, "mpiq_method") == 0) {
    const Result<Method> method = parse_method(value);
    if (!method.ok()) return {Code::bad_info, "info mpiq_method: " + method.status().text()};
    wishes.method = *method;
    return {};
  }
  if (std::strcmp(key, "mpiq_key") == 0) {
    if (value.empty() || value.size() > MPIQ_MAX_KEY)
      return {Code::bad_info, "info mpiq_key: \"" + value + "\" is not 1 to 63 characters"};
    wishes.key = value;
    return {};
  }
  return {Code::bad_info, std::string("info: unknown key \"") + key + "\" (known: mpiq_method, mpiq_key)"};
}

// Reads the mpiq_ keys of an info; other keys are somebody else's.
Status read_info(MPI_Info info, Wishes& wishes) {
  if (info == MPI_INFO_NULL) return {};
  int keys = 0;
  MQ_TRY(mpi_status(PMPI_Info_get_nkeys(info, &keys), "MPI_Info_get_nkeys"));
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "";
    MQ_TRY(mpi_status(PMPI_Info_get_nthkey(info, i, key), "MPI_Info_get_nthkey"));
    if (std::strncmp(key, "mpiq_", 5) != 0) continue;
    int length = 0, found = 0;
    MQ_TRY(mpi_status(PMPI_Info_get_valuelen(info, key, &length, &found), "MPI_Info_get_valuelen"));
    std::string value(static_cast<std::size_t>(length) + 1, '\0');
    MQ_TRY(mpi_status(PMPI_Info_get(info, key, length, value.data(), &found), "MPI_Info_get"));
    value.resize(static_cast<std::size_t>(length));
    MQ_TRY(read_key(key, value, wishes));
  }
  return {};
}

Status wire_bound(const char* method_text, MPI_Count count, MPI_Datatype datatype, MPI_Count* bytes) {
  if (method_text == nullptr || bytes == nullptr) return {Code::bad_argument, "method or bytes is NULL"};
  if (count < 0) return {Code::bad_argument, "count " + std::to_string(count) + " is negative"};
  if (count > kMaxCount) return {Code::bad_argument, "count " + std::to_string(count) + " is more than 2^58"};
  const Result<Method> method = parse_method(method_text);
  if (!method.ok()) return method.status();
  const std::optional<kernels::Element> element = element_of(datatype);
  if (!element) return {Code::bad_argument, "datatype is neither MPI_FLOAT nor MPI_DOUBLE"};
  const auto n = static_cast<std::size_t>(count);
  *bytes = static_cast<MPI_Count>(method->exact() ? n * kernels::element_bytes(*element)
                                                  : method->codec->wire_bound(n, *element, method->params));
  return {};
}

Status set_policy(MPI_Comm comm, const char* rules) {
  int inter = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return {Code::bad_argument, "MPIQ_Comm_set_policy: comm is an intercommunicator"};
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  if (size == 1) return Policy::parse(rules).status();  // nothing is ever compressed there
  const Result<CommState*> state = CommState::obtain(comm, CommState::Initial::no_rules);
  if (!state.ok()) return state.status();
  if (*state == nullptr)
    return {Code::bad_argument, "MPIQ_Comm_set_policy: MPI is not initialised, or being finalized"};
  return (*state)->set_policy(comm, rules);
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" {

int MPIQ_Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Info info) {
  const Call call{sendbuf, recvbuf, count, datatype, op, comm};
  Wishes wishes;
  wishes.trouble = guarded_status([&] { return read_info(info, wishes); });
  return conclude(call, requested_allreduce(call, wishes));
}

int MPIQ_Comm_set_policy(MPI_Comm comm, const char* rules) {
  return raise(comm, guarded_status([&] { return set_policy(comm, rules ? rules : ""); }));
}

int MPIQ_Comm_get_stats(MPI_Comm comm, MPIQ_Stats* stats) {
  if (stats == nullptr) return raise(comm, {Code::bad_argument, "MPIQ_Comm_get_stats: stats is NULL"});
  *stats = {};
  if (const CommState* state = CommState::find(comm)) {
    *stats = state->stats;
    stats->residual_bytes = state->residuals.bytes();
    stats->scratch_bytes = state->scratch.bytes();
  }
  return MPI_SUCCESS;
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
