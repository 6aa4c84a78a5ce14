// What the preload library calls in this one. It is a table of functions, because the two are compiled apart
// and meet only in the running program.

#include <array>
#include <optional>
#include <type_traits>

#include "mpi_quant.h"
#include "mpi_quant/base/launchers.h"
#include "mpi_quant/base/stub.h"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/parted_call.hpp"
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

// How a function of MPI calls its collective. None: by its blocking function, and the call is made here. Else
// the call is counted, and the stub makes it.
using Form = std::optional<mpiq_counted>;

int allreduce(mpiq_slot sendbuf, mpiq_slot recvbuf, std::int64_t count, mpiq_slot datatype, mpiq_slot op,
              mpiq_slot comm) {
  mq::Call call = call_of(sendbuf, recvbuf, count, datatype, op, comm);
  if (call.op == MPI_SUM) (void)mq::count_in_reals(call, mq::Types::predefined);
  return mq::intercepted_call(call);
}

// The arguments of MPI_Allreduce: sendbuf, recvbuf, count, datatype, op, comm.
int allreduce(const mpiq_slot* a, std::int64_t count, Form form) {
  if (!form) return allreduce(a[0], a[1], count, a[3], a[4], a[5]);
  mq::count_call(*form, call_of(a[0], a[1], count, a[3], a[4], a[5]));
  return MPI_SUCCESS;
}

// The arguments of MPI_Reduce_scatter and MPI_Reduce_scatter_block: sendbuf, recvbuf, counts, datatype, op,
// comm.
int reduce_scatter(const mpiq_slot* a, const mq::PartCounts& counts, Form form) {
  return mq::intercepted_parts(call_of(a[0], a[1], 0, a[3], a[4], a[5]), counts, nullptr, form);
}

// The arguments of MPI_Allgather and MPI_Allgatherv: sendbuf, sendcount, sendtype, recvbuf, counts; then
// displacements, if there are some; then recvtype, comm.
int allgather(const mpiq_slot* a, std::int64_t sendcount, const mq::PartCounts& counts, Form form) {
  const mpiq_slot* const last = a + (counts.is_uneven() ? 6 : 5);
  mq::GatherArguments gather{static_cast<MPI_Count>(sendcount), from_slot<MPI_Datatype>(a[2]),
                             from_slot<MPI_Datatype>(last[0]), nullptr, nullptr};
  if (counts.by_rank != nullptr) gather.displs = from_slot<const int*>(a[5]);
  if (counts.by_rank_large != nullptr) gather.displs_large = from_slot<const MPI_Aint*>(a[5]);
  mq::Call call = call_of(a[0], a[3], 0, last[0], 0, last[1]);
  call.op = MPI_SUM;
  return mq::intercepted_parts(call, counts, &gather, form);
}

// The arguments of MPI_Bcast: buffer, count, datatype, root, comm.
int bcast(const mpiq_slot* a, std::int64_t count, Form form) {
  mq::Call call = call_of(0, a[0], count, a[2], 0, a[4]);
  call.op = MPI_SUM;
  call.collective = mq::Collective::bcast;
  return mq::intercepted_rooted(call, static_cast<int>(a[3]), form);
}

// The arguments of MPI_Reduce: sendbuf, recvbuf, count, datatype, op, root, comm.
int reduce(const mpiq_slot* a, std::int64_t count, Form form) {
  mq::Call call = call_of(a[0], a[1], count, a[3], a[4], a[6]);
  call.collective = mq::Collective::reduce;
  return mq::intercepted_rooted(call, static_cast<int>(a[5]), form);
}

// Where the counts by rank stand among the arguments, and the communicator; -1: the function has none.
struct ArrayAt {
  int counts = -1, comm = -1;
};
ArrayAt array_at(mpiq_collective what) {
  switch (what) {
    case MPIQ_REDUCE_SCATTER:
    case MPIQ_REDUCE_SCATTER_LARGE: return {2, 5};
    case MPIQ_ALLGATHERV:
    case MPIQ_ALLGATHERV_LARGE: return {4, 7};
    default: return {};
  }
}

// An int in a slot is its lower half.
int call(mpiq_collective what, const mpiq_slot* a, Form form) {
  if (const ArrayAt at = array_at(what); at.counts >= 0 && a[at.counts] == 0)
    return form ? MPI_SUCCESS
                : mq::raise(from_slot<MPI_Comm>(a[at.comm]), {mq::Code::bad_argument, "recvcounts is NULL"});
  const auto small = [&](int at) { return mq::PartCounts{0, from_slot<const int*>(a[at]), nullptr}; };
  const auto large = [&](int at) { return mq::PartCounts{0, nullptr, from_slot<const MPI_Count*>(a[at])}; };
  const auto each = [](MPI_Count n) { return mq::PartCounts{n, nullptr, nullptr}; };
  switch (what) {  // without a default, so that the compiler says which function is missing
    case MPIQ_REDUCE_SCATTER: return reduce_scatter(a, small(2), form);
    case MPIQ_REDUCE_SCATTER_LARGE: return reduce_scatter(a, large(2), form);
    case MPIQ_REDUCE_SCATTER_BLOCK: return reduce_scatter(a, each(static_cast<int>(a[2])), form);
    case MPIQ_REDUCE_SCATTER_BLOCK_LARGE: return reduce_scatter(a, each(static_cast<MPI_Count>(a[2])), form);
    case MPIQ_ALLGATHER: return allgather(a, static_cast<int>(a[1]), each(static_cast<int>(a[4])), form);
    case MPIQ_ALLGATHER_LARGE: return allgather(a, a[1], each(static_cast<MPI_Count>(a[4])), form);
    case MPIQ_ALLGATHERV: return allgather(a, static_cast<int>(a[1]), small(4), form);
    case MPIQ_ALLGATHERV_LARGE: return allgather(a, a[1], large(4), form);
    case MPIQ_BCAST: return bcast(a, static_cast<int>(a[1]), form);
    case MPIQ_BCAST_LARGE: return bcast(a, a[1], form);
    case MPIQ_REDUCE: return reduce(a, static_cast<int>(a[2]), form);
    case MPIQ_REDUCE_LARGE: return reduce(a, a[2], form);
    case MPIQ_ALLREDUCE: return allreduce(a, static_cast<int>(a[2]), form);
    case MPIQ_ALLREDUCE_LARGE: return allreduce(a, a[2], form);
  }
  return MPI_ERR_OTHER;
}

int collective(mpiq_collective what, const mpiq_slot* a) { return call(what, a, {}); }

void counted(mpiq_counted form, mpiq_collective what, const mpiq_slot* a) { (void)call(what, a, form); }

int pcontrol(int level, const char* command) {
  return mq::guarded_status([&] { return mq::obey(level, command); }).ok() ? MPI_SUCCESS : MPI_ERR_ARG;
}

int comm_info(mpiq_slot comm, mpiq_slot info) {
  const auto on = from_slot<MPI_Comm>(comm);
  return mq::raise(on, mq::guarded_status([&] { return mq::keep_rules(on, from_slot<MPI_Info>(info)); }));
}

}  // namespace

extern "C" MPIQ_PUBLIC const mpiq_core mpiq_core_v1 = {
    MPIQ_STUB_VERSION, mq::kFamily, sizeof(MPI_Comm), initialized, started,  &mq::internal::watching_word,
    allreduce,         collective,  counted,          pcontrol,    comm_info};
