// What the preload library calls in this one. It is a table of functions, because the two are compiled apart
// and meet only in the running program.

#include <type_traits>

#include "mpi_quant.h"
#include "mpi_quant/base/stub.h"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/preload/control.hpp"
#include "mpi_quant/preload/intercept.hpp"
#include "mpi_quant/preload/watch.hpp"

namespace {

// The handle or pointer of MPI that a slot holds.
template <class T>
T from_slot(mpiq_slot slot) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<T>(slot);
  else
    return static_cast<T>(slot);
}

mq::Call call_of(mpiq_slot sendbuf, mpiq_slot recvbuf, std::int64_t count, mpiq_slot datatype, mpiq_slot op,
                 mpiq_slot comm) {
  return {from_slot<const void*>(sendbuf),   from_slot<void*>(recvbuf), static_cast<MPI_Count>(count),
          from_slot<MPI_Datatype>(datatype), from_slot<MPI_Op>(op),     from_slot<MPI_Comm>(comm)};
}

int initialized(int* flag) { return PMPI_Initialized(flag); }

void started() { mq::watch(true); }

int allreduce(mpiq_slot sendbuf, mpiq_slot recvbuf, std::int64_t count, mpiq_slot datatype, mpiq_slot op,
              mpiq_slot comm) {
  return mq::intercepted_allreduce(call_of(sendbuf, recvbuf, count, datatype, op, comm));
}

void counted(mpiq_counted what, std::int64_t count, mpiq_slot datatype, mpiq_slot op, mpiq_slot comm) {
  mq::count_call(what, call_of(0, 0, count, datatype, op, comm));
}

int pcontrol(int level, const char* command) {
  return mq::guarded_status([&] { return mq::obey(level, command); }).ok() ? MPI_SUCCESS : MPI_ERR_ARG;
}

int comm_info(mpiq_slot comm, mpiq_slot info) {
  const auto on = from_slot<MPI_Comm>(comm);
  return mq::raise(on, mq::guarded_status([&] { return mq::keep_rules(on, from_slot<MPI_Info>(info)); }));
}

}  // namespace

extern "C" MPIQ_PUBLIC const mpiq_core mpiq_core_v1 = {
    MPIQ_STUB_VERSION, mq::kFamily, sizeof(MPI_Comm), initialized, started, &mq::internal::watching_word,
    allreduce,         counted,     pcontrol,         comm_info};
