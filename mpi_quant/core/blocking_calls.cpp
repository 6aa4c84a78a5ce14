#include "mpi_quant/core/blocking_calls.hpp"

#include <memory>
#include <string_view>

#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/shared_time.hpp"
#include "mpi_quant/core/watchdog.hpp"

namespace mq {
namespace {

struct BlockingCalls final : Extension {
  explicit BlockingCalls(CommState& state) : runs(state, RunningCall::Exact::by_caller) {}
  void forget(const char*) noexcept override {}  // a run holds a key during its call only

  Runs runs;
};

const ExtensionKind kind_of_blocking([](CommState& state) -> std::unique_ptr<Extension> {
  return std::make_unique<BlockingCalls>(state);
});

// The communicator now has to serve more than messages. First there is an agreement over the messages: if a
// rank makes another kind of call, all ranks get an error, and none hangs.
Status meet(CommState& state, std::string_view what) {
  const InLibrary in_library;
  RunningCall& run = blocking_runs(state).one;
  run.prepare_meeting(signature_of_function(what), {});
  run.start();
  while (!run.done())
    if (!run.advance() && !advance_requests()) state.channel.comm().idle();
  return run.outcome().status;
}

}  // namespace

Runs& blocking_runs(CommState& state) {
  return static_cast<BlockingCalls&>(state.extension(kind_of_blocking)).runs;
}

Result<bool> activate(CommState& state, MPI_Comm user_comm, Use use) {
  Channel& channel = state.channel;
  const bool opens = !channel.serves(use);
  if (opens) {
    if (channel.is_refused(use)) return false;
    // Functions that reduce nothing begin in the same way, see meeting.hpp.
    MQ_TRY(channel.is_open() ? meet(state, "first reduction")
                             : collective_check(user_comm, {}, "a reduction", wait_in_call));
    const Result<bool> opened = channel.open(user_comm, use);
    if (!opened.ok() || !*opened) return opened;
  }
  if (state.policy.rules.by_nodes() && !channel.knows_nodes()) {
    // MPI splits the program's communicator: all ranks have to be here, also those that come from another
    // function.
    if (!opens) MQ_TRY(meet(state, "split in nodes"));
    MQ_TRY(channel.find_nodes(user_comm));
  }
  return true;
}

}  // namespace mq
