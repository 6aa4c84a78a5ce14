#include "mpi_quant/core/task.hpp"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/comm_state.hpp"

namespace mq {
namespace {

struct UnderWay {
  std::mutex mutex;         // never held while waiting; taken before a state's, never the other way round
  std::vector<Task> tasks;  // has room for all listings
  std::size_t listings = 0;
};
UnderWay& under_way() {
  static Immortal<UnderWay> u;  // requests may be completed while statics are torn down
  return *u;
}

}  // namespace

Listing::Listing() {
  UnderWay& u = under_way();
  const std::scoped_lock lock(u.mutex);
  u.tasks.reserve(u.listings + 1);
  ++u.listings;
}

Listing::~Listing() {
  const std::scoped_lock lock(under_way().mutex);
  --under_way().listings;
}

void list(Task task) {
  const std::scoped_lock lock(under_way().mutex);
  under_way().tasks.push_back(task);
}

void unlist(const void* call) {
  const std::scoped_lock lock(under_way().mutex);
  std::erase_if(under_way().tasks, [&](const Task& task) { return task.call() == call; });
}

bool advance_requests() noexcept {
  UnderWay& u = under_way();
  const std::unique_lock lock(u.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread is at it
  bool moved = false;
  for (const Task& task : u.tasks) {
    const std::unique_lock state(task.state().mutex, std::try_to_lock);
    if (state.owns_lock() && !task.done()) moved |= task.advance();
  }
  return moved;
}

std::size_t abandon_requests(double patience_s) noexcept {
  UnderWay& u = under_way();
  std::size_t abandoned = 0;
  {
    const std::scoped_lock lock(u.mutex);
    abandoned = u.tasks.size();
    for (const Task& task : u.tasks) {
      const std::scoped_lock state(task.state().mutex);
      if (!task.done()) task.abandon();
    }
  }
  const auto all_done = [&] {
    const std::scoped_lock lock(u.mutex);
    return std::all_of(u.tasks.begin(), u.tasks.end(), [](const Task& task) {
      const std::scoped_lock state(task.state().mutex);
      return task.done();
    });
  };
  for (double moved_s = now_s(); !all_done() && now_s() - moved_s < patience_s;) {
    if (advance_requests())
      moved_s = now_s();
    else
      sched_yield();
  }
  const std::scoped_lock lock(u.mutex);
  for (const Task& task : u.tasks)
    if (!task.done()) task.state().keep();
  return abandoned;
}

void complete(const Task& task) noexcept {
  CommState& state = task.state();
  double idle_since = -1;
  for (bool done = false; !done;) {
    const double now = idle_since < 0 ? 0 : now_s();
    bool moved = false;
    {
      const std::scoped_lock lock(state.mutex);
      moved = task.advance();
      done = task.done();
    }
    moved = moved || done || advance_requests();
    const std::scoped_lock lock(state.mutex);
    if (moved) {
      state.comm->busy();
      if (idle_since >= 0) state.stats.wait_s += now - idle_since;
      idle_since = -1;
    } else {
      state.comm->idle();
      if (idle_since < 0) idle_since = now_s();
    }
  }
}

}  // namespace mq
