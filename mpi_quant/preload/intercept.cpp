#include "mpi_quant/preload/intercept.hpp"

#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/preload/control.hpp"
#include "mpi_quant/preload/site.hpp"
#include "mpi_quant/preload/watch.hpp"
#include "mpi_quant/report/reported_call.hpp"

namespace mq {
namespace {

// Why MPI reduces the call, by its arguments and the ranks of its communicator.
std::optional<Reason> why_exact_at_once(Situation& situation) {
  situation.ask_element();
  if (const auto why = why_exact(Knowledge::arguments, situation)) return why;
  situation.ask_ranks();
  return why_exact(Knowledge::ranks, situation);
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

// A call in which ranks have different parts. plain: its arguments, for MPI. make: makes the whole Call.
// form: as in intercepted_parts().
template <class Make>
int intercepted_roles(const Call& plain, std::optional<mpiq_counted> form, const Make& make) {
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
  ExactCall counted(call, why_exact_at_once(situation).value_or(Reason::rule));
  const int code = exact_parted(call);
  counted.end();
  return code;
}

}  // namespace

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
  if (situation.known == nullptr) watch(false);
  const Outcome outcome = asked.run();
  if (!watched) return answer(call, outcome);
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

int intercepted_parts(const Call& given, const PartCounts& counts, const GatherArguments* gather,
                      std::optional<mpiq_counted> form) {
  PartedCall parted;
  parted.counts = counts;
  parted.from_program = true;
  if (gather != nullptr) parted.gather = *gather;
  Call plain = given;
  plain.collective = gather != nullptr ? Collective::allgather : Collective::reduce_scatter;
  plain.parted = &parted;
  return intercepted_roles(plain, form, [&] {
    return gather != nullptr
               ? allgather_call(given.sendbuf, given.recvbuf, *gather, counts, given.comm, parted)
               : reduce_scatter_call(given.sendbuf, given.recvbuf, counts, given.datatype, given.op,
                                     given.comm, parted);
  });
}

int intercepted_rooted(const Call& given, int root, std::optional<mpiq_counted> form) {
  PartedCall parted;
  parted.counts.each = given.count;
  parted.root = root;
  parted.from_program = true;
  Call plain = given;
  plain.parted = &parted;
  return intercepted_roles(plain, form, [&] {
    return given.collective == Collective::bcast
               ? bcast_call(given.recvbuf, given.count, given.datatype, root, given.comm, parted)
               : reduce_call(given.sendbuf, given.recvbuf, given.count, given.datatype, given.op, root,
                             given.comm, parted);
  });
}

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

}  // namespace mq
