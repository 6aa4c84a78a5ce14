// What the preload library calls of this one: a table, because the two are compiled apart and meet in the
// running program.

#include <type_traits>

#include "mpi_quant.h"
#include "mpi_quant/allreduce.hpp"
#include "mpi_quant/base/front.h"

namespace {

// A handle or pointer of MPI out of its slot.
template <class T>
T from_slot(mpiq_slot slot) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<T>(slot);
  else
    return static_cast<T>(slot);
}

int allreduce(mpiq_slot sendbuf, mpiq_slot recvbuf, std::int64_t count, mpiq_slot datatype, mpiq_slot op,
              mpiq_slot comm) {
  const mq::Call call{from_slot<const void*>(sendbuf), from_slot<void*>(recvbuf),
                      static_cast<MPI_Count>(count),   from_slot<MPI_Datatype>(datatype),
                      from_slot<MPI_Op>(op),           from_slot<MPI_Comm>(comm)};
  return mq::conclude(call, mq::intercepted_allreduce(call));
}

int initialized(int* flag) { return PMPI_Initialized(flag); }

#ifdef OPEN_MPI
constexpr const char* kFamily = "openmpi";
#else
constexpr const char* kFamily = "mpich";
#endif

}  // namespace

extern "C" MPIQ_PUBLIC const mpiq_core mpiq_core_v1 = {MPIQ_FRONT_VERSION, kFamily, initialized, allreduce};
