// What the preload library calls in this one: collectives of an unmodified program. It is a table of
// functions, because the two are compiled apart and meet only in the running program. A call goes the road
// of every call (core/allreduce.hpp). What is added here: what the program has said by MPI_Pcontrol, where it
// called, and the record of how the call ended.

#include <array>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "mpi_quant.h"
#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/launchers.h"
#include "mpi_quant/base/stub.h"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/preload/control.hpp"
#include "mpi_quant/preload/site.hpp"
#include "mpi_quant/preload/watch.hpp"
#include "mpi_quant/report/reported_call.hpp"

namespace mq {
namespace {

// How a function of MPI calls its collective. None: by its blocking function, and the call is made here. Else
// the stub has made the call in this form, and it is counted here.
using Form = std::optional<mpiq_counted>;

// Why MPI reduces the call, by its arguments and the ranks of its communicator.
std::optional<Reason> why_exact_at_once(Situation& situation) {
  situation.ask_element();
  if (const auto why = why_exact(Knowledge::arguments, situation)) return why;
  situation.ask_ranks();
  return why_exact(Knowledge::ranks, situation);
}

// Counts a call that the stub has made in this form, if a report is wanted. Local.
void count_call(mpiq_counted form, const Call& call) noexcept {
  Situation situation{call};
  if (why_exact_at_once(situation) == Reason::handle) return;  // nothing may be asked of it
  Reason why = Reason::nonblocking;
  switch (form) {  // without a default, so that the compiler says which kind is missing
    case MPIQ_NONBLOCKING: break;
    case MPIQ_PERSISTENT: why = Reason::persistent; break;
  }
  const ExactCall counted(call, why);
}

// Counts the call that `make` makes. Without memory for it nothing is counted.
template <class Make>
int count_made(mpiq_counted form, const Make& make) {
  try {
    count_call(form, make());
  } catch (const std::bad_alloc&) {
    return MPI_SUCCESS;
  }
  return MPI_SUCCESS;
}

// Makes the call and returns its MPI error code.
int intercepted_call(const Call& call) {
  const bool watched = watching();
  const Program program{control, take_key, call_site, watched};
  Situation situation{call, &program};
  if (const std::optional<Reason> exact = why_exact_at_once(situation)) {
    if (!watched) return exact_call(call, situation.element);
    ExactCall counted(call, *exact);
    const int code = exact_call(call, situation.element);
    counted.end();
    return code;
  }
  ProgramCall asked(situation);
  const std::uint64_t begin = watched ? ticks() : 0;
  if (situation.state == nullptr) watch(false);
  const Outcome outcome = asked.run();
  if (!watched) {
    note_feedback(asked.feedback());
    return answer(call, outcome);
  }
  const std::uint64_t middle = ticks();
  AdvisedCall advised(call, asked.is_advisable());
  const std::uint64_t resumed = ticks();
  const int code = answer(call, outcome);
  const ReportedCall record{outcome.reason, asked.feedback(),    asked.site(),
                            asked.method(), asked.guard_error(), asked.work()};
  record.take(call, middle - begin + (ticks() - resumed));
  advised.after(code == MPI_SUCCESS);
  return code;
}

// True if the word stands in the text, not as a part of a longer one ("reduce" of "reduce_scatter").
bool has_word(std::string_view text, std::string_view word) {
  const auto goes_on = [&](std::size_t at) {
    return at < text.size() && (text[at] == '_' || (text[at] >= 'a' && text[at] <= 'z'));
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if (!goes_on(at - 1) && !goes_on(at + word.size())) return true;
  return false;
}

// Whether rules for this collective may be in force on the communicator. Else its calls are MPI's own: the
// library then must not even compare the ranks, because MPI allows them to differ more than the library does.
bool has_rules(MPI_Comm comm, Collective collective) {
  if (CommState* const state = find_state(comm)) {
    const std::scoped_lock lock(state->mutex);
    return state->policy.rules.names(collective);
  }
  const std::string* const kept = comm == MPI_COMM_NULL ? nullptr : kept_rules(comm);
  if (kept == nullptr && !env().ok()) return true;  // the error is to be raised
  return has_word(kept != nullptr ? *kept : env()->policy, name(collective));
}

// Whether the program runs to be advised, and a codec could serve this call. Local, as the advice is: MPI
// allows ranks to differ more than the library does, and those that do must not wait for the others here.
bool is_advisable(const Call& call) {
  if (!env().ok() || env()->mode != Mode::advise) return false;
  const Program program{control, take_key, call_site, true};
  Situation situation{call, &program};
  return !why_exact_at_once(situation) &&
         static_cast<std::uint64_t>(call.count) * kernels::element_bytes(*situation.element) >= kFloorBytes;
}

// A call in which ranks have different parts. plain: its arguments, for MPI. make: makes the whole Call.
template <class Make>
int intercepted_parts(const Call& plain, Form form, const Make& make) {
  if (form) return count_made(*form, make);
  const Types types = adds(plain.collective) ? Types::predefined : Types::derived;
  const bool may_compress = may_hold_reals(plain.datatype) && has_rules(plain.comm, plain.collective) &&
                            reals_of(plain.datatype, types);
  if (!may_compress && !watching())
    return exact_parted(plain);  // soon, for programs that gather integers again and again
  Call call = plain;
  try {  // an error in the arguments is MPI's to report
    call = make();
  } catch (const std::bad_alloc&) {
    return raise(plain.comm, {Code::no_memory, "out of memory"});
  }
  if (may_compress) return intercepted_call(call);
  Situation situation{call};
  AdvisedCall advised(call, is_advisable(call));
  ExactCall counted(call, why_exact_at_once(situation).value_or(Reason::rule));
  const int code = exact_parted(call);
  counted.end();
  advised.after(code == MPI_SUCCESS);
  return code;
}

PartedCall of_program(const PartCounts& counts, int root = kNobody) {
  PartedCall parted;
  parted.counts = counts;
  parted.root = root;
  parted.from_program = true;
  return parted;
}

}  // namespace
}  // namespace mq

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
  mq::Call call = call_of(sendbuf, recvbuf, count, datatype, op, comm);
  if (call.op == MPI_SUM) (void)mq::count_in_reals(call, mq::Types::predefined);
  return mq::intercepted_call(call);
}

// The arguments of MPI_Allreduce: sendbuf, recvbuf, count, datatype, op, comm.
int allreduce(const mpiq_slot* a, std::int64_t count, mq::Form form) {
  if (!form) return allreduce(a[0], a[1], count, a[3], a[4], a[5]);
  mq::count_call(*form, call_of(a[0], a[1], count, a[3], a[4], a[5]));
  return MPI_SUCCESS;
}

// The arguments of MPI_Reduce_scatter and MPI_Reduce_scatter_block: sendbuf, recvbuf, counts, datatype, op,
// comm.
int reduce_scatter(const mpiq_slot* a, const mq::PartCounts& counts, mq::Form form) {
  mq::PartedCall parted = mq::of_program(counts);
  mq::Call plain = call_of(a[0], a[1], 0, a[3], a[4], a[5]);
  plain.collective = mq::Collective::reduce_scatter;
  plain.parted = &parted;
  return mq::intercepted_parts(plain, form, [&] {
    return mq::reduce_scatter_call(plain.sendbuf, plain.recvbuf, counts, plain.datatype, plain.op, plain.comm,
                                   parted);
  });
}

// The arguments of MPI_Allgather and MPI_Allgatherv: sendbuf, sendcount, sendtype, recvbuf, counts; then
// displacements, if there are some; then recvtype, comm.
int allgather(const mpiq_slot* a, std::int64_t sendcount, const mq::PartCounts& counts, mq::Form form) {
  const mpiq_slot* const last = a + (counts.is_uneven() ? 6 : 5);
  mq::GatherArguments gather{static_cast<MPI_Count>(sendcount), from_slot<MPI_Datatype>(a[2]),
                             from_slot<MPI_Datatype>(last[0]), nullptr, nullptr};
  if (counts.by_rank != nullptr) gather.displs = from_slot<const int*>(a[5]);
  if (counts.by_rank_large != nullptr) gather.displs_large = from_slot<const MPI_Aint*>(a[5]);
  mq::PartedCall parted = mq::of_program(counts);
  parted.gather = gather;
  mq::Call plain = call_of(a[0], a[3], 0, last[0], 0, last[1]);
  plain.op = MPI_SUM;
  plain.collective = mq::Collective::allgather;
  plain.parted = &parted;
  return mq::intercepted_parts(plain, form, [&] {
    return mq::allgather_call(plain.sendbuf, plain.recvbuf, gather, counts, plain.comm, parted);
  });
}

// The arguments of MPI_Bcast: buffer, count, datatype, root, comm.
int bcast(const mpiq_slot* a, std::int64_t count, mq::Form form) {
  const auto root = static_cast<int>(a[3]);
  mq::PartedCall parted = mq::of_program({.each = static_cast<MPI_Count>(count)}, root);
  mq::Call plain = call_of(0, a[0], count, a[2], 0, a[4]);
  plain.op = MPI_SUM;
  plain.collective = mq::Collective::bcast;
  plain.parted = &parted;
  return mq::intercepted_parts(plain, form, [&] {
    return mq::bcast_call(plain.recvbuf, plain.count, plain.datatype, root, plain.comm, parted);
  });
}

// The arguments of MPI_Reduce: sendbuf, recvbuf, count, datatype, op, root, comm.
int reduce(const mpiq_slot* a, std::int64_t count, mq::Form form) {
  const auto root = static_cast<int>(a[5]);
  mq::PartedCall parted = mq::of_program({.each = static_cast<MPI_Count>(count)}, root);
  mq::Call plain = call_of(a[0], a[1], count, a[3], a[4], a[6]);
  plain.collective = mq::Collective::reduce;
  plain.parted = &parted;
  return mq::intercepted_parts(plain, form, [&] {
    return mq::reduce_call(plain.sendbuf, plain.recvbuf, plain.count, plain.datatype, plain.op, root,
                           plain.comm, parted);
  });
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
int call(mpiq_collective what, const mpiq_slot* a, mq::Form form) {
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
