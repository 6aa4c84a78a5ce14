// What the preload library calls in this one. It is a table of functions, because the two are compiled apart
// and meet only in the running program.

#include <array>
#include <type_traits>

#include "mpi_quant.h"
#include "mpi_quant/base/launchers.h"
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

// Under another MPI's launcher every process is rank 0 of its own world: no report, but a word that says why.
void started() {
  int size = 0, length = 0;
  const mpiq_launcher* const wrong =
      PMPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS ? mpiq_wrong_launcher(size) : nullptr;
  if (wrong == nullptr) return mq::watch(true);
  static std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> version;
  (void)PMPI_Get_library_version(version.data(), &length);
  mpiq_say_wrong_launcher("mpi_quant", wrong, version.data());
}

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
