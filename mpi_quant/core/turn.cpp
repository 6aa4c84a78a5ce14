#include "mpi_quant/core/turn.hpp"

#include <condition_variable>
#include <mutex>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/comm_state.hpp"

namespace mq {

Turn::Turn(CommState& state) : state_(state) {
  std::unique_lock lock(state_.mutex);
  had_to_wait_ = state_.turns.taken;
  state_.turns.over.wait(lock, [&] { return !state_.turns.taken; });
  state_.turns.taken = true;
}

Turn::~Turn() {
  const std::scoped_lock lock(state_.mutex);
  state_.turns.taken = false;
  state_.turns.over.notify_all();  // under the lock, because the last waiting thread may free the state
}

Status Turn::local_error() const noexcept { return had_to_wait_ ? crowded() : Status{}; }

Status Turn::crowded() noexcept {
  return status_of(Code::bad_argument, [] {
    return "another thread is in a call on this communicator; use one thread at a time, or one communicator "
           "for each";
  });
}

namespace {

struct UnderWay {
  std::mutex mutex;
  std::condition_variable over;
  FirstUse* first = nullptr;
};
UnderWay& under_way() {
  static Immortal<UnderWay> u;  // threads may still use it at exit
  return *u;
}

}  // namespace

FirstUse::FirstUse(MPI_Comm comm) : comm_(comm) {
  UnderWay& u = under_way();
  std::unique_lock lock(u.mutex);
  u.over.wait(lock, [&] {
    for (const FirstUse* other = u.first; other != nullptr; other = other->next_)
      if (other->comm_ == comm_) return false;
    return true;
  });
  next_ = u.first;
  u.first = this;
}

FirstUse::~FirstUse() {
  UnderWay& u = under_way();
  const std::scoped_lock lock(u.mutex);
  FirstUse** at = &u.first;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  u.over.notify_all();
}

}  // namespace mq
