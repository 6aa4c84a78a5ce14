// A Comm whose ranks are in one process: threads, so that ThreadSanitizer sees the executor, or fibers that
// take turns, so that plans are swept over many rank counts in seconds. Can delay, damage, lose, duplicate
// and reorder messages on purpose, and end ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "bench/research/simulate/fiber.hpp"
#include "mpi_quant/base/comm.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {

class Loopback {
 public:
  using Message = std::vector<std::byte>;
  // How buffers of messages are read and written.
  using Copy = void (*)(void* to, const void* from, std::size_t n);
  // Called for every message before it is delivered; may change it.
  using Tamper = std::function<void(int from, int to, int tag, Message&)>;
  // What becomes of a message: copies of it (0: lost), which can be received after so many tries to receive
  // one with this tag from its sender. Messages of one sender and tag stay in order.
  struct Fate {
    int copies = 1, delay = 0;
  };
  // The number counts the messages of the sender, from 0.
  using Fault = std::function<Fate(int from, int to, int tag, int number)>;

  class Rank {
   public:
    struct Request {
      bool receive = false;
      int peer = 0, tag = 0;
      std::span<std::byte> in;
      int polls_left = 0;                          // until it may complete
      std::shared_ptr<std::atomic<bool>> taken{};  // of a send that completes when it is received
    };
    Rank(Loopback& net, int rank)
        : net_(net), rank_(rank), random_(static_cast<std::uint64_t>(rank) + net.delay_seed_) {}
    int rank() const { return rank_; }
    int size() const { return net_.size_; }
    Status send(int to, int tag, std::span<const std::byte> out, Request& request);
    Status receive(int from, int tag, std::span<std::byte> in, Request& request);
    Status test(Request& request, bool& done, std::size_t& received_bytes);
    // Sleeps until something has happened to this rank since its last call, or for a moment: polls may be
    // counted.
    void idle() { net_.wait(rank_, events_seen_); }
    void busy() {}
    int unfinished() const { return unfinished_; }

   private:
    int delay() { return net_.delay_seed_ ? static_cast<int>(random_() % 7) : 0; }
    Loopback& net_;
    int rank_, unfinished_ = 0, number_ = 0;
    std::uint64_t events_seen_ = 0;
    std::mt19937_64 random_;
    std::map<std::pair<int, int>, std::deque<Request*>> posted_;
  };

  // delay_seed != 0 makes requests complete after a random number of polls.
  explicit Loopback(int size, std::uint64_t delay_seed = 0, Tamper tamper = {}, Fault fault = {});
  ~Loopback();

  // Some faults. A rank dies: nothing that it sends from message `from_message` on arrives.
  static Fault dead(int rank, int from_message);
  // Every message is late by its own number of tries, some come twice or three times.
  static Fault jumbled(std::uint64_t seed, int most_delay, bool duplicates);

  // Sends complete when their message is received, as long messages of MPI do; a message that was changed
  // meanwhile by its sender arrives changed, so that this is seen.
  void set_rendezvous() { rendezvous_ = true; }
  void set_copy(Copy copy) { copy_ = copy; }
  // How long a rank waits for a message before it looks at its other work again. A device wakes nobody.
  void set_patience(std::chrono::microseconds patience) { patience_ = patience; }

  // Runs body(Rank&) on every rank, each in a thread.
  void run(const std::function<void(Rank&)>& body);
  // The same on this thread: the ranks take turns, where they are idle. With ThreadSanitizer they are threads
  // here, too, because it does not follow fibers.
  void run_in_turn(const std::function<void(Rank&)>& body);
  // Requests never completed plus messages never received; 0 after a sound run.
  std::size_t leaked() const;

 private:
  struct Queued {
    Message message;
    int delay = 0;
    const std::byte* source = nullptr;
    std::shared_ptr<std::atomic<bool>> taken{};  // of a rendezvous
  };
  void post(int from, int to, int tag, int number, Queued queued);
  // The mutex must be held.
  void wake(int rank) {
    Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(rank)];
    ++mailbox.events;
    mailbox.changed.notify_one();
  }
  void wait(int rank, std::uint64_t& seen);
  bool take(int from, int to, int tag, Message& message);
  int size_;
  std::uint64_t delay_seed_;
  bool rendezvous_ = false;
  Copy copy_ = [](void* to, const void* from, std::size_t n) {
    if (n > 0) std::memcpy(to, from, n);
  };
  Tamper tamper_;
  Fault fault_;
  std::chrono::microseconds patience_{1000};
  sim::Fibers* fibers_ = nullptr;  // while ranks take turns
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<Queued>> queues_;
  struct Mailbox {
    std::uint64_t events = 0;  // messages that came, and messages of this rank that were taken
    std::condition_variable changed;
  };
  std::vector<Mailbox> mailboxes_;
  int unfinished_ = 0;
};

static_assert(Comm<Loopback::Rank>);

}  // namespace mq::test
