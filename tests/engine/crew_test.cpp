// The threads that help with codec steps.

#include "mpi_quant/base/crew.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

// Runs a job of n parts and counts how often each part ran.
std::vector<int> counts_of(int n) {
  std::vector<std::atomic<int>> ran(static_cast<std::size_t>(n));
  mq::run_together(n, [&](int i) { ++ran[static_cast<std::size_t>(i)]; });
  return {ran.begin(), ran.end()};
}

TEST(Crew, RunsEachPartOnce) {
  for (int n : {0, 1, 2, 3, 5, 64, 100})
    EXPECT_EQ(counts_of(n), std::vector<int>(static_cast<std::size_t>(n), 1)) << n;
}

// While it lives, EXPECT_EXIT runs its statement in a process that is started anew. AddressSanitizer may hang
// where a process that had threads forks and starts threads.
struct NewProcess {
  NewProcess() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  ~NewProcess() { testing::FLAGS_gtest_death_test_style = before; }
  NewProcess(const NewProcess&) = delete;
  NewProcess& operator=(const NewProcess&) = delete;
  const std::string before = testing::FLAGS_gtest_death_test_style;
};

// The exit code of a process whose thread is bound to one processor before its first job: 0 if the other
// threads have `all`.
[[noreturn]] void first_job_of_a_bound_thread(const cpu_set_t& all) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) std::_Exit(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> here{0}, right{0};
  mq::run_together(3, [&](int) {
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0)
      right += CPU_EQUAL(&own, std::this_thread::get_id() == caller ? &one : &all);
    ++here;
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (here < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  std::_Exit(right == 3 ? 0 : 1);
}

// crew_openmp_test runs it with an OpenMP runtime that bound this program's thread before the library was
// loaded.
TEST(Crew, ThreadsOfABoundThreadHaveAllProcessors) {
  const bool bound_before = std::getenv("OMP_PROC_BIND") != nullptr;
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(bound_before ? getppid() : 0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) == 1) GTEST_SKIP() << "one processor";
  if (bound_before) {
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    ASSERT_EQ(CPU_COUNT(&own), 1) << "the OpenMP runtime bound nothing";
  }
  // The one that OpenMP bound has to be this process's child.
  std::optional<NewProcess> style;
  if (!bound_before) style.emplace();
  EXPECT_EXIT(first_job_of_a_bound_thread(all), testing::ExitedWithCode(0), "");
}

TEST(Crew, PartsRunAtTheSameTime) {
  constexpr int kParts = 4;
  std::atomic<int> here{0};
  std::atomic<bool> met{true};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  mq::run_together(kParts, [&](int) {
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    ++here;
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (here < kParts && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (here < kParts) met = false;
  });
  EXPECT_TRUE(met);
  EXPECT_EQ(threads.size(), 4U);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1U);
}

// A program may make memory writable in its handler of SIGSEGV.
TEST(Crew, SignalsThatAThreadRaisesReachTheProgramsHandler) {
  const NewProcess style;
  EXPECT_EXIT(
      {
        static std::atomic<int> handled{0};
        struct sigaction action {};
        action.sa_handler = [](int) { ++handled; };
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
          sigaction(signal, &action, nullptr);
        constexpr int kParts = 3;
        std::atomic<int> here{0};
        mq::run_together(kParts, [&](int) {
          ++here;  // each part in a thread of its own
          const auto deadline = std::chrono::steady_clock::now() + 20s;
          while (here < kParts && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
          for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
            pthread_kill(pthread_self(), signal);
        });
        _exit(handled == 6 * kParts ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Crew, ServesSeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> parts{0};
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) mq::run_together(5, [&](int) { ++parts; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(parts, 6 * 200 * 5);
}

TEST(Crew, HelpersSleepBetweenJobsAndComeBack) {
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(counts_of(8), std::vector<int>(8, 1));
  }
}

TEST(Crew, RunsNoSignalHandlers) {
  std::atomic<int> blocked{0}, here{0};
  mq::run_together(3, [&](int) {
    ++here;
    while (here < 3) std::this_thread::yield();
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked += sigismember(&mask, SIGUSR1);
  });
  EXPECT_EQ(blocked, 2);  // of the two helpers; the caller's mask stays
}

#if !defined(__SANITIZE_THREAD__)  // which cannot start threads after fork
TEST(Crew, WorksInAChildProcess) {
  EXPECT_EQ(counts_of(4), std::vector<int>(4, 1));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(counts_of(4) == std::vector<int>(4, 1) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
