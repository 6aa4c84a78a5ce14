#include "mpi_quant/preload/intercept.hpp"

#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/preload/control.hpp"
#include "mpi_quant/preload/site.hpp"
#include "mpi_quant/preload/watch.hpp"
#include "mpi_quant/report/call_record.hpp"

namespace mq {
namespace {

// Why MPI reduces the call, by its arguments and the ranks of its communicator.
std::optional<Reason> why_exact_at_once(Situation& situation) {
  situation.ask_element();
  if (const auto why = why_exact(Knowledge::arguments, situation)) return why;
  situation.ask_ranks();
  return why_exact(Knowledge::ranks, situation);
}

}  // namespace

int intercepted_allreduce(const Call& call) {
  const bool watched = watching();
  const Program program{control, take_key, call_site, watched};
  Situation situation{call, &program};
  if (const std::optional<Reason> exact = why_exact_at_once(situation)) {
    if (!watched) return exact_allreduce(call, situation.element);
    ExactCall counted(call, *exact);
    const int code = exact_allreduce(call, situation.element);
    counted.end();
    return code;
  }
  ProgramCall asked(situation);
  const std::uint64_t begin = watched ? ticks() : 0;
  if (find_state(call.comm) == nullptr) watch(false);
  const Outcome outcome = asked.run();
  if (!watched) return answer(call, outcome);
  const std::uint64_t middle = ticks();
  AdvisedCall advised(call, asked.is_advisable());
  const std::uint64_t resumed = ticks();
  const int code = answer(call, outcome);
  const CallRecord record{outcome.reason, asked.feedback(),    asked.site(),
                          asked.method(), asked.guard_error(), asked.work()};
  record.take(call, middle - begin + (ticks() - resumed));
  advised.after(code == MPI_SUCCESS);
  return code;
}

void count_call(mpiq_counted what, const Call& call) noexcept {
  Reason why = Reason::nonblocking;
  switch (what) {  // without a default, so that the compiler says which kind is missing
    case MPIQ_NONBLOCKING: break;
    case MPIQ_PERSISTENT: why = Reason::persistent; break;
  }
  const ExactCall counted(call, why);
}

}  // namespace mq
