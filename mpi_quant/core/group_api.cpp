// The body of MPIQ_Allreduce_group.

#include <string>
#include <utility>

#include "mpi_quant.h"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/group_call.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/mean.hpp"

namespace mq {
namespace {

Status refuse(const CallOptions& options) {
  const auto bad_info = [](const char* what) -> Status {
    return {Code::bad_info, std::string("MPIQ_Allreduce_group: info ") + what};
  };
  if (!options.key.empty()) return bad_info("mpiq_key is of one vector: give keys");
  if (options.matrix.is_given()) return bad_info("mpiq_matrix is of one vector");
  if (options.method && options.method->chooses()) return bad_info("mpiq_method: auto serves single vectors");
  if (options.method && options.method->scheme != nullptr)
    return bad_info("mpiq_method: lowrank serves single vectors");
  return {};
}

}  // namespace
}  // namespace mq

using namespace mq;

extern "C" int MPIQ_Allreduce_group(int n, const void* const sendbufs[], void* const recvbufs[],
                                    const MPI_Count counts[], const char* const keys[], MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm, MPI_Info info) {
  if (!mpi_fits()) return raise(comm, misfit());
  GroupCall group;
  Call call{MPI_IN_PLACE, nullptr, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, comm};
  Status made = guarded_status([&]() -> Status {
    call = group_call({n, sendbufs, recvbufs, counts, keys}, datatype, op, comm, group);
    return group.error;
  });
  CallOptions options = read_options(info, call.count);
  if (made.ok() && options.local_error.ok()) made = guarded_status([&] { return refuse(options); });
  if (!made.ok()) {
    call.count = -1;
    options.local_error = std::move(made);
    options.method.reset();
  }
  take_mean(call, options);
  return answer(call, requested_call({call, options}));
}
