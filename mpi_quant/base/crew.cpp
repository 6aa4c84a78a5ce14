#include "mpi_quant/base/crew.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "mpi_quant/base/env.hpp"

namespace mq {
namespace {

struct Job {
  void (*part)(void* data, int i);
  void* data;
  int n;
  int next = 1;     // the next part to take; part 0 is the caller's
  int helpers = 0;  // threads that run a part, besides the caller
  Job* after = nullptr;
};

// How often a thread looks for work, or for the end of a job, before it sleeps. The next job mostly comes
// within microseconds, and waking a thread takes longer than its part.
constexpr int kLooks = 200;

// A thread that inherits the program's signal mask could run the program's signal handlers. But what a thread
// raises by what it does itself must reach the program's handler, if it has one: where it is blocked, the
// system kills the process.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, own);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

struct Processors {
  cpu_set_t set;
  // The processors of a thread; none if there are more than a cpu_set_t can say.
  explicit Processors(pid_t thread) {
    CPU_ZERO(&set);
    if (sched_getaffinity(thread, sizeof set, &set) != 0) CPU_ZERO(&set);
  }
  int count() const { return CPU_COUNT(&set); }
};

// The processors of the program's first thread when the library was loaded.
const Processors at_load{getpid()};

// Adds the places of a loaded OpenMP runtime. With OMP_PROC_BIND it binds the first thread before the library
// is loaded.
void add_openmp_places(Processors& processors) {
  const auto places = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_num_places"));
  const auto size = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "omp_get_place_num_procs"));
  const auto list = reinterpret_cast<void (*)(int, int*)>(dlsym(RTLD_DEFAULT, "omp_get_place_proc_ids"));
  if (places == nullptr || size == nullptr || list == nullptr) return;
  for (int place = 0; place < places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(size(place)));
    list(place, ids.data());
    for (const int id : ids)
      if (id >= 0 && id < CPU_SETSIZE) CPU_SET(id, &processors.set);
  }
}

// A thread has the processors of the one that starts it. If that is bound to a single one, as OMP_PROC_BIND
// binds a program's threads, the threads would only wait for each other: they take all processors that the
// program had.
Processors for_threads() {
  Processors own{0};
  if (own.count() != 1) return own;
  Processors all = at_load;
  CPU_OR(&all.set, &all.set, &own.set);
  if (all.count() == 1) add_openmp_places(all);
  return all;
}

class Crew {
 public:
  void run(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      Job** end = &jobs_;
      while (*end != nullptr) end = &(*end)->after;
      *end = &job;
      while (idle_ < job.n - 1 && start_thread()) {
      }
    }
    posted_.fetch_add(1, std::memory_order_release);
    work_.notify_all();
    job.part(job.data, 0);
    std::unique_lock lock(mutex_);
    while (job.next < job.n) {
      const int i = take(job);
      lock.unlock();
      job.part(job.data, i);
      lock.lock();
    }
    for (int looks = 0; job.helpers > 0 && looks < kLooks; ++looks) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    over_.wait(lock, [&] { return job.helpers == 0; });
  }

  const pid_t process = getpid();

 private:
  // The number of a part that nobody has taken. The job leaves the list with its last part. The mutex is
  // held.
  int take(Job& job) {
    const int i = job.next++;
    if (job.next < job.n) return i;
    Job** at = &jobs_;
    while (*at != &job) at = &(*at)->after;
    *at = job.after;
    return i;
  }

  bool start_thread() {
    if (threads_ == kMaxThreads - 1) return false;
    try {
      const NoSignals inherited;
      std::thread([this, processors = for_threads()] {
        if (processors.count() > 0) (void)sched_setaffinity(0, sizeof processors.set, &processors.set);
        help();
      }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++threads_;
    ++idle_;
    return true;
  }

  // What a thread does until the process ends.
  void help() {
    for (unsigned seen = 0;;) {
      for (int looks = 0; looks < kLooks && posted_.load(std::memory_order_acquire) == seen; ++looks)
        std::this_thread::yield();
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return jobs_ != nullptr; });
      --idle_;
      while (jobs_ != nullptr) {
        Job& job = *jobs_;
        const int i = take(job);
        ++job.helpers;
        lock.unlock();
        job.part(job.data, i);
        lock.lock();
        if (--job.helpers == 0) over_.notify_all();
      }
      ++idle_;
      seen = posted_.load(std::memory_order_relaxed);
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, over_;
  std::atomic<unsigned> posted_{0};  // jobs so far, for threads that look without the mutex
  Job* jobs_ = nullptr;              // jobs with parts that nobody has taken
  int threads_ = 0, idle_ = 0;
};

// Never destroyed, because its threads use it until the process ends. A child process of fork() has none of
// the threads and makes a crew of its own.
Crew& crew() {
  static std::atomic<Crew*> shared{nullptr};
  Crew* here = shared.load(std::memory_order_acquire);
  if (here != nullptr && here->process == getpid()) return *here;
  Crew* const made = new Crew;
  if (shared.compare_exchange_strong(here, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *here;
}

}  // namespace

void run_together(int n, void (*part)(void* data, int i), void* data) {
  if (n == 1) part(data, 0);
  if (n <= 1) return;
  Job job{part, data, n};
  crew().run(job);
}

}  // namespace mq
