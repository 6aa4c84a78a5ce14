#include "mpi_quant/core/answer.hpp"

#include <limits>
#include <string>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/exact_check.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"

namespace mq {
namespace {

bool is_half(std::optional<kernels::Element> element) {
  return element && kernels::element_bytes(*element) == 2;
}

// A sum of half-type vectors without elements: there is nothing to do, and MPI would refuse the type.
bool is_empty_half(const Call& call) {
  const bool adds_counts = call.parted != nullptr && !has_root(call.collective);
  if (adds_counts && call.parted->ends.empty()) return false;  // the count is not known
  return call.count == 0 && call.op == MPI_SUM && is_half(element_of(call.datatype));
}

// For `auto`. It asks for times of sums of reals only.
void tell_clock(const Call& call, const Outcome& outcome) {
  if (outcome.clock == nullptr) return;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  outcome.clock->dense_took(static_cast<std::size_t>(call.count) * kernels::element_bytes(*element),
                            outcome.begin_s);
}

// MPI sums the vectors one after the other. After an error the other ranks still wait for the next ones.
// Without elements MPI is not called, but the communicator is checked as MPI would.
int answer_group(const Call& call, const Outcome& outcome) {
  int size = 0, first = PMPI_Comm_size(call.comm, &size);
  for (std::size_t i = 0; i < call.group->vectors.size(); ++i) {
    const Call one = call_of(call, i);
    const int code = one.count == 0 ? MPI_SUCCESS : answer(one, {});
    if (first == MPI_SUCCESS) first = code;
  }
  if (first == MPI_SUCCESS) tell_clock(call, outcome);
  return first;
}

}  // namespace

Status start_exact(const Call& call, MPI_Comm comm, MPI_Request& request) {
  if (is_empty_half(call)) {
    request = MPI_REQUEST_NULL;
    return {};
  }
  if (call.parted != nullptr) return start_exact_parted(call, comm, request);
#if MPI_VERSION >= 4
  const int code = real_mpi().iallreduce_c(call.sendbuf, call.recvbuf, call.mpi_count(), call.mpi_type(),
                                           call.op, comm, &request);
#else
  const int code = call.mpi_count() > std::numeric_limits<int>::max()
                       ? MPI_ERR_COUNT
                       : real_mpi().iallreduce(call.sendbuf, call.recvbuf, static_cast<int>(call.mpi_count()),
                                               call.mpi_type(), call.op, comm, &request);
#endif
  return start_status(code, "MPI_Iallreduce");
}

Result<bool> copies_alone(const Call& call) {
  int inter = 0, size = 0;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  bool alone = call.comm != MPI_COMM_NULL && (element || own_half_of(call.datatype)) && call.op == MPI_SUM &&
               call.count >= 0 && (call.parted == nullptr || !call.parted->is_unusual) &&
               PMPI_Comm_test_inter(call.comm, &inter) == MPI_SUCCESS && !inter &&
               PMPI_Comm_size(call.comm, &size) == MPI_SUCCESS && size == 1;
  if (alone && !own_half_of(call.datatype)) {
    alone = false;
    for (const void* p : {call.sendbuf, static_cast<const void*>(call.recvbuf)}) {
      if (alone || p == MPI_IN_PLACE || p == nullptr) continue;
      const Result<bool> there = is_on_device(p);
      if (!there.ok()) return there.status();
      alone = *there;
    }
  }
  const std::size_t width = element ? kernels::element_bytes(*element) : 2;
  const bool gathers = call.parted != nullptr && !call.parted->places.empty();
  const std::size_t at = gathers ? call.parted->places[0] * width : 0;
  if (alone && call.sendbuf != MPI_IN_PLACE && call.count > 0)
    MQ_TRY(copy_now(static_cast<std::byte*>(call.recvbuf) + at, call.sendbuf,
                    width * static_cast<std::size_t>(call.count)));
  return alone;
}

Status exact_sum(const void* in, void* out, const Call& call) {
#if MPI_VERSION >= 4
  const int code = real_mpi().allreduce_c(in, out, call.mpi_count(), call.mpi_type(), MPI_SUM, call.comm);
#else
  const int code = call.mpi_count() > std::numeric_limits<int>::max()
                       ? MPI_ERR_COUNT
                       : real_mpi().allreduce(in, out, static_cast<int>(call.mpi_count()), call.mpi_type(),
                                              MPI_SUM, call.comm);
#endif
  return mpi_status(code, "MPI_Allreduce");
}

int exact_call(const Call& call, std::optional<kernels::Element> element) {
  if (element) {
    const Result<bool> copied = copies_alone(call);
    if (!copied.ok() || *copied) return raise(call.comm, copied.status());
  }
  if (call.parted != nullptr) return exact_parted(call);
  const MPI_Count count = call.mpi_count();
  if (count > std::numeric_limits<int>::max()) {
#if MPI_VERSION >= 4
    return real_mpi().allreduce_c(call.sendbuf, call.recvbuf, count, call.mpi_type(), call.op, call.comm);
#else
    return raise(call.comm, {Code::bad_argument, "count " + std::to_string(count) +
                                                     " is more than this MPI library can reduce exactly"});
#endif
  }
  return real_mpi().allreduce(call.sendbuf, call.recvbuf, static_cast<int>(count), call.mpi_type(), call.op,
                              call.comm);
}

int answer(const Call& call, const Outcome& outcome) {
  if (!outcome.status.ok() || outcome.delivered || is_empty_half(call))
    return raise(call.comm, outcome.status);
  if (call.group != nullptr) return answer_group(call, outcome);
  const std::optional<kernels::Element> element = element_of(call.datatype);
  const int code = exact_call(call, element);
  if (code == MPI_SUCCESS && call.divisor != 1)
    if (const Status divided = divide_result(call); !divided.ok()) return raise(call.comm, divided);
  if (code == MPI_SUCCESS) tell_clock(call, outcome);
  return code;
}

}  // namespace mq
