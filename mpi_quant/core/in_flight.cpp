#include "mpi_quant/core/in_flight.hpp"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/shared_time.hpp"

namespace mq {
namespace {

struct UnderWay {
  std::mutex mutex;              // not held while waiting; taken before the mutex of a state, never after it
  std::vector<InFlight*> calls;  // has room for all slots
  std::size_t slots = 0;
};
UnderWay& under_way() {
  static Immortal<UnderWay> u;  // requests may be completed while statics are destroyed
  return *u;
}

}  // namespace

InFlightSlot::InFlightSlot() {
  UnderWay& u = under_way();
  const std::scoped_lock lock(u.mutex);
  u.calls.reserve(u.slots + 1);
  ++u.slots;
}

InFlightSlot::~InFlightSlot() {
  const std::scoped_lock lock(under_way().mutex);
  --under_way().slots;
}

void list(InFlight& call) {
  const std::scoped_lock lock(under_way().mutex);
  under_way().calls.push_back(&call);
}

void unlist(const InFlight& call) {
  const std::scoped_lock lock(under_way().mutex);
  std::erase(under_way().calls, &call);
}

bool advance_requests() noexcept {
  UnderWay& u = under_way();
  const std::unique_lock lock(u.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread is advancing them
  bool moved = false;
  for (InFlight* const call : u.calls) {
    const std::unique_lock state(call->state().mutex, std::try_to_lock);
    if (state.owns_lock() && !call->done()) moved |= call->advance();
  }
  return moved;
}

std::size_t abandon_requests(double patience_s) noexcept {
  UnderWay& u = under_way();
  std::size_t abandoned = 0;
  {
    const std::scoped_lock lock(u.mutex);
    abandoned = u.calls.size();
    for (InFlight* const call : u.calls) {
      const std::scoped_lock state(call->state().mutex);
      if (!call->done()) call->abandon();
    }
  }
  const auto all_done = [&] {
    const std::scoped_lock lock(u.mutex);
    return std::all_of(u.calls.begin(), u.calls.end(), [](const InFlight* call) {
      const std::scoped_lock state(call->state().mutex);
      return call->done();
    });
  };
  for (double moved_s = now_s(); !all_done() && now_s() - moved_s < patience_s;) {
    if (advance_requests())
      moved_s = now_s();
    else
      sched_yield();
  }
  const std::scoped_lock lock(u.mutex);
  for (InFlight* const call : u.calls)
    if (!call->done()) call->state().keep();
  return abandoned;
}

void complete(InFlight& call) noexcept {
  const InLibrary in_library;
  CommState& state = call.state();
  double idle_since = -1;
  for (bool done = false; !done;) {
    const double now = idle_since < 0 ? 0 : now_s();
    bool moved = false;
    {
      const std::scoped_lock lock(state.mutex);
      moved = call.advance();
      done = call.done();
    }
    moved = moved || done || advance_requests();
    const std::scoped_lock lock(state.mutex);
    if (moved) {
      state.channel.comm().busy();
      if (idle_since >= 0) state.stats.wait_s += now - idle_since;
      idle_since = -1;
    } else {
      state.channel.comm().idle();
      if (idle_since < 0) idle_since = now_s();
    }
  }
}

}  // namespace mq
