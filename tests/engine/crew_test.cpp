// The threads that help with codec steps.

#include "mpi_quant/base/crew.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
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
