#include "mpi_quant/core/shared_time.hpp"

#include <mutex>

#include "mpi_quant/automatic/overlap.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/base/ticks.hpp"

namespace mq {
namespace {

struct TimeOfProcess {
  std::mutex mutex;  // taken after all others. The clock is read under it, so that times do not go back
  SharedTime time;
};
TimeOfProcess& of_process() {
  static Immortal<TimeOfProcess> time;  // requests may be completed while statics are destroyed
  return *time;
}

}  // namespace

InLibrary::InLibrary() noexcept {
  const std::scoped_lock lock(of_process().mutex);
  of_process().time.enter(now_s());
}

InLibrary::~InLibrary() {
  const std::scoped_lock lock(of_process().mutex);
  of_process().time.leave(now_s());
}

void Share::begin() noexcept {
  if (begin_) return;
  const std::scoped_lock lock(of_process().mutex);
  begin_ = of_process().time.start(now_s());
}

double Share::end() noexcept {
  if (!begin_) return 0;
  const std::scoped_lock lock(of_process().mutex);
  const double seconds = of_process().time.finish(now_s(), *begin_);
  begin_.reset();
  return seconds;
}

}  // namespace mq
