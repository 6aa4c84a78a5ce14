// The bodies of the MPIQ_ functions in which ranks have different parts of the vector. Each has three forms:
// blocking, non-blocking and persistent.

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/requests.hpp"

namespace mq {
namespace {

// The arguments of a function. make: makes the Call of a PartedCall of them. missing: the name of an array
// that is NULL; null if none is.
template <class Make>
struct Asked {
  MPI_Comm comm;
  MPI_Info info;
  Make make;
  const char* missing;
};
template <class Make>
Asked(MPI_Comm, MPI_Info, Make, const char*) -> Asked<Make>;

auto for_reduce_scatter(const void* sendbuf, void* recvbuf, const PartCounts& counts, MPI_Datatype datatype,
                        MPI_Op op, MPI_Comm comm, MPI_Info info, const char* missing = nullptr) {
  return Asked{comm, info,
               [=](PartedCall& parted) {
                 return reduce_scatter_call(sendbuf, recvbuf, counts, datatype, op, comm, parted);
               },
               missing};
}

auto for_reduce_scatter(const void* sendbuf, void* recvbuf, const MPI_Count* recvcounts,
                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info) {
  return for_reduce_scatter(sendbuf, recvbuf, PartCounts{0, nullptr, recvcounts}, datatype, op, comm, info,
                            recvcounts == nullptr ? "recvcounts" : nullptr);
}

auto for_allgather(const void* sendbuf, const GatherArguments& gather, void* recvbuf,
                   const PartCounts& counts, MPI_Comm comm, MPI_Info info, const char* missing = nullptr) {
  return Asked{
      comm, info,
      [=](PartedCall& parted) { return allgather_call(sendbuf, recvbuf, gather, counts, comm, parted); },
      missing};
}

auto for_allgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    const MPI_Count* recvcounts, const MPI_Aint* displs, MPI_Datatype recvtype, MPI_Comm comm,
                    MPI_Info info) {
  return for_allgather(sendbuf, {sendcount, sendtype, recvtype, nullptr, displs}, recvbuf,
                       {0, nullptr, recvcounts}, comm, info,
                       recvcounts == nullptr ? "recvcounts"
                       : displs == nullptr   ? "displs"
                                             : nullptr);
}

auto for_bcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info) {
  return Asked{comm, info,
               [=](PartedCall& parted) { return bcast_call(buffer, count, datatype, root, comm, parted); },
               nullptr};
}

auto for_reduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                int root, MPI_Comm comm, MPI_Info info) {
  return Asked{comm, info,
               [=](PartedCall& parted) {
                 return reduce_call(sendbuf, recvbuf, count, datatype, op, root, comm, parted);
               },
               nullptr};
}

// parted: what the call is to be of. Null: there was no memory for it, and the other ranks learn of that.
template <class Make>
Request request_of(const Asked<Make>& asked, PartedCall* parted, bool is_blocking) {
  Request request{.call = {nullptr, nullptr, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, asked.comm},
                  .is_blocking = is_blocking};
  Call& call = request.call;
  Status made = guarded_status([&]() -> Status {
    if (asked.missing != nullptr) return {Code::bad_argument, std::string(asked.missing) + " is NULL"};
    if (parted == nullptr) return {Code::no_memory, "out of memory"};
    call = asked.make(*parted);
    if (!is_blocking) keep_arrays(call, *parted);
    return parted->error;
  });
  CallOptions& options = request.options;
  options = read_options(asked.info, call.count);
  if (made.ok() && options.local_error.ok() && options.matrix.is_given())
    made = guarded_status([]() -> Status {
      return {Code::bad_info, "info mpiq_matrix serves allreduce only"};
    });
  if (made.ok() && options.local_error.ok() && options.method)
    made = guarded_status([&]() -> Status {
      const std::string unfit = unfit_for(call.collective, *options.method);
      return unfit.empty() ? Status{} : Status{Code::bad_info, "info mpiq_method: " + unfit};
    });
  if (!made.ok()) {
    options.local_error = std::move(made);
    options.method.reset();
  }
  take_mean(call, options);
  return request;
}

template <class Make>
int call_with_parts(const Asked<Make>& asked) {
  if (!mpi_fits()) return raise(asked.comm, misfit());
  PartedCall parted;
  const Request request = request_of(asked, &parted, true);
  return answer(request.call, requested_call(request));
}

std::shared_ptr<PartedCall> shared_parts() noexcept {
  try {
    return std::make_shared<PartedCall>();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// begin: start_once or make_persistent.
template <class Make, class Begin>
int request_with_parts(const Asked<Make>& asked, const Begin& begin, const char* function,
                       MPIQ_Request* request) {
  return raise(asked.comm, guarded_status([&] {
                 std::shared_ptr<PartedCall> parted = shared_parts();
                 Request wanted = request_of(asked, parted.get(), false);
                 wanted.parted = std::move(parted);
                 return begin(wanted, function, request);
               }));
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" {

int MPIQ_Reduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount, MPI_Datatype datatype,
                              MPI_Op op, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(
      for_reduce_scatter(sendbuf, recvbuf, PartCounts{recvcount}, datatype, op, comm, info));
}

int MPIQ_Ireduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount, MPI_Datatype datatype,
                               MPI_Op op, MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  return request_with_parts(
      for_reduce_scatter(sendbuf, recvbuf, PartCounts{recvcount}, datatype, op, comm, info), start_once,
      "MPIQ_Ireduce_scatter_block", request);
}

int MPIQ_Reduce_scatter_block_init(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                   MPIQ_Request* request) {
  return request_with_parts(
      for_reduce_scatter(sendbuf, recvbuf, PartCounts{recvcount}, datatype, op, comm, info), make_persistent,
      "MPIQ_Reduce_scatter_block_init", request);
}

int MPIQ_Reduce_scatter(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(for_reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm, info));
}

int MPIQ_Ireduce_scatter(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                         MPIQ_Request* request) {
  return request_with_parts(for_reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm, info),
                            start_once, "MPIQ_Ireduce_scatter", request);
}

int MPIQ_Reduce_scatter_init(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                             MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                             MPIQ_Request* request) {
  return request_with_parts(for_reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm, info),
                            make_persistent, "MPIQ_Reduce_scatter_init", request);
}

int MPIQ_Allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(
      for_allgather(sendbuf, {sendcount, sendtype, recvtype}, recvbuf, {recvcount}, comm, info));
}

int MPIQ_Iallgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                    MPIQ_Request* request) {
  return request_with_parts(
      for_allgather(sendbuf, {sendcount, sendtype, recvtype}, recvbuf, {recvcount}, comm, info), start_once,
      "MPIQ_Iallgather", request);
}

int MPIQ_Allgather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                        MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                        MPIQ_Request* request) {
  return request_with_parts(
      for_allgather(sendbuf, {sendcount, sendtype, recvtype}, recvbuf, {recvcount}, comm, info),
      make_persistent, "MPIQ_Allgather_init", request);
}

int MPIQ_Allgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                    MPI_Comm comm, MPI_Info info) {
  return call_with_parts(
      for_allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info));
}

int MPIQ_Iallgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                     const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                     MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  return request_with_parts(
      for_allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info),
      start_once, "MPIQ_Iallgatherv", request);
}

int MPIQ_Allgatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                         const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                         MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  return request_with_parts(
      for_allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, info),
      make_persistent, "MPIQ_Allgatherv_init", request);
}

int MPIQ_Bcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(for_bcast(buffer, count, datatype, root, comm, info));
}

int MPIQ_Ibcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info,
                MPIQ_Request* request) {
  return request_with_parts(for_bcast(buffer, count, datatype, root, comm, info), start_once, "MPIQ_Ibcast",
                            request);
}

int MPIQ_Bcast_init(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                    MPI_Info info, MPIQ_Request* request) {
  return request_with_parts(for_bcast(buffer, count, datatype, root, comm, info), make_persistent,
                            "MPIQ_Bcast_init", request);
}

int MPIQ_Reduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                int root, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(for_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, info));
}

int MPIQ_Ireduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                 int root, MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  return request_with_parts(for_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, info), start_once,
                            "MPIQ_Ireduce", request);
}

int MPIQ_Reduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                     int root, MPI_Comm comm, MPI_Info info, MPIQ_Request* request) {
  return request_with_parts(for_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, info),
                            make_persistent, "MPIQ_Reduce_init", request);
}

}  // extern "C"
