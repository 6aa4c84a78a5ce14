// The bodies of MPIQ_Allreduce_group, MPIQ_Iallreduce_group and MPIQ_Allreduce_group_init.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/group_call.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/requests.hpp"

namespace mq {
namespace {

Status bad_group_info(const GroupCall& group, const std::string& what) {
  return {Code::bad_info, group.function + (": info " + what)};
}

// The keys that say something of one vector, or of a vector in GPU memory.
Status refuse_keys(const GroupCall& group, MPI_Info info) {
  return for_each_key(info, [&](const char* key, const char*) -> Status {
    const std::string_view name = key;
    if (name == "mpiq_method" || name == "mpiq_op" || name == "mpiq_seed") return {};
    if (name == "mpiq_key") return bad_group_info(group, "mpiq_key is of one vector: give keys");
    const bool is_of_gpu = name == "mpiq_stream" || name == "mpiq_stream_ordered";
    return bad_group_info(
        group, std::string(name) + (is_of_gpu ? " is of a vector in GPU memory" : " is of one vector"));
  });
}

Status refuse_method(const GroupCall& group, const Method& method) {
  if (method.scheme != nullptr)
    return bad_group_info(group,
                          "mpiq_method: " + std::string(method.scheme->name) + " serves single vectors");
  return method.codec == nullptr ? Status{} : refuse_group(group, method);
}

Request group_request(const GroupArguments& given, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                      MPI_Info info, const char* function, bool is_blocking = false) {
  Request request{.call = {MPI_IN_PLACE, nullptr, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, comm}};
  request.is_blocking = is_blocking;
  Status made = guarded_status([&]() -> Status {
    const auto group = std::make_shared<GroupCall>();
    group->function = function;
    request.call = group_call(given, datatype, op, comm, *group);
    request.group = group;
    return group->error;
  });
  CallOptions& options = request.options;
  options = read_options(info, request.call.count);
  if (made.ok() && options.local_error.ok()) {
    made = guarded_status([&]() -> Status {
      MQ_TRY(refuse_keys(*request.group, info));
      return options.method ? refuse_method(*request.group, *options.method) : Status{};
    });
  }
  if (!made.ok()) {
    request.call.count = -1;
    options.local_error = std::move(made);
    options.method.reset();
  }
  take_mean(request.call, options);
  return request;
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" int MPIQ_Allreduce_group(int n, const void* const sendbufs[], void* const recvbufs[],
                                    const MPI_Count counts[], const char* const keys[], MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm, MPI_Info info) {
  if (!mpi_fits()) return raise(comm, misfit());
  const Request request = group_request({n, sendbufs, recvbufs, counts, keys}, datatype, op, comm, info,
                                        "MPIQ_Allreduce_group", true);
  return answer(request.call, requested_call(request));
}

extern "C" int MPIQ_Iallreduce_group(int n, const void* const sendbufs[], void* const recvbufs[],
                                     const MPI_Count counts[], const char* const keys[],
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                     MPIQ_Request* request) {
  if (!mpi_fits()) return raise(comm, misfit());
  const GroupArguments given{n, sendbufs, recvbufs, counts, keys};
  const char* const own = "MPIQ_Iallreduce_group";
  return raise(comm, guarded_status([&] {
                 return start_once(group_request(given, datatype, op, comm, info, own), own, request);
               }));
}

extern "C" int MPIQ_Allreduce_group_init(int n, const void* const sendbufs[], void* const recvbufs[],
                                         const MPI_Count counts[], const char* const keys[],
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                         MPIQ_Request* request) {
  if (!mpi_fits()) return raise(comm, misfit());
  const GroupArguments given{n, sendbufs, recvbufs, counts, keys};
  const char* const own = "MPIQ_Allreduce_group_init";
  return raise(comm, guarded_status([&] {
                 return make_persistent(group_request(given, datatype, op, comm, info, own), own, request);
               }));
}
