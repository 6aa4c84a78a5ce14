// The bodies of the MPIQ_ functions in which ranks have different parts of the vector.

#include <string>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/parted_call.hpp"

namespace mq {
namespace {

// make: makes the Call of `parted`. missing: the name of an array that is NULL; null if none is.
template <class Make>
int call_with_parts(MPI_Comm comm, MPI_Info info, const char* missing, const Make& make) {
  if (!mpi_fits()) return raise(comm, misfit());
  PartedCall parted;
  Call call{nullptr, nullptr, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, comm};
  Status made = guarded_status([&]() -> Status {
    if (missing != nullptr) return {Code::bad_argument, std::string(missing) + " is NULL"};
    call = make(parted);
    return parted.error;
  });
  CallOptions options = read_options(info, call.count);
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
  return answer(call, requested_call({call, options}));
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" {

int MPIQ_Reduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount, MPI_Datatype datatype,
                              MPI_Op op, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(comm, info, nullptr, [&](PartedCall& parted) {
    return reduce_scatter_call(sendbuf, recvbuf, {recvcount, nullptr, nullptr}, datatype, op, comm, parted);
  });
}

int MPIQ_Reduce_scatter(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info) {
  const char* const missing = recvcounts == nullptr ? "recvcounts" : nullptr;
  return call_with_parts(comm, info, missing, [&](PartedCall& parted) {
    return reduce_scatter_call(sendbuf, recvbuf, {0, nullptr, recvcounts}, datatype, op, comm, parted);
  });
}

int MPIQ_Allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(comm, info, nullptr, [&](PartedCall& parted) {
    return allgather_call(sendbuf, recvbuf, {sendcount, sendtype, recvtype, nullptr, nullptr},
                          {recvcount, nullptr, nullptr}, comm, parted);
  });
}

int MPIQ_Allgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                    MPI_Comm comm, MPI_Info info) {
  const char* const missing = recvcounts == nullptr ? "recvcounts" : displs == nullptr ? "displs" : nullptr;
  return call_with_parts(comm, info, missing, [&](PartedCall& parted) {
    return allgather_call(sendbuf, recvbuf, {sendcount, sendtype, recvtype, nullptr, displs},
                          {0, nullptr, recvcounts}, comm, parted);
  });
}

int MPIQ_Bcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(comm, info, nullptr, [&](PartedCall& parted) {
    return bcast_call(buffer, count, datatype, root, comm, parted);
  });
}

int MPIQ_Reduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                int root, MPI_Comm comm, MPI_Info info) {
  return call_with_parts(comm, info, nullptr, [&](PartedCall& parted) {
    return reduce_call(sendbuf, recvbuf, count, datatype, op, root, comm, parted);
  });
}

}  // extern "C"
