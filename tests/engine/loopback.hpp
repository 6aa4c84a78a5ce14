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
    Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
      ++unfinished_;
      request = {false, to, tag, {}, delay()};
      if (net_.rendezvous_) request.taken = std::make_shared<std::atomic<bool>>(false);
      Message message(out.size());
      net_.copy_(message.data(), out.data(), out.size());
      net_.post(rank_, to, tag, number_++, {std::move(message), 0, out.data(), request.taken});
      return {};
    }
    Status receive(int from, int tag, std::span<std::byte> in, Request& request) {
      ++unfinished_;
      // Receives with one source and tag are matched in the order they were posted, as in MPI.
      posted_[{from, tag}].push_back(&request);
      request = {true, from, tag, in, delay()};
      return {};
    }
    Status test(Request& request, bool& done, std::size_t& received_bytes) {
      done = false;
      if (request.polls_left-- > 0) return {};
      if (request.receive) {
        auto& queue = posted_[{request.peer, request.tag}];
        if (queue.front() != &request) return {};
        Message message;
        if (!net_.take(request.peer, rank_, request.tag, message)) return {};
        queue.pop_front();
        received_bytes = message.size();
        net_.copy_(request.in.data(), message.data(), std::min(message.size(), request.in.size()));
      } else if (request.taken && !*request.taken) {
        return {};
      }
      --unfinished_;
      done = true;
      return {};
    }
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
  explicit Loopback(int size, std::uint64_t delay_seed = 0, Tamper tamper = {}, Fault fault = {})
      : size_(size),
        delay_seed_(delay_seed),
        tamper_(std::move(tamper)),
        fault_(std::move(fault)),
        mailboxes_(static_cast<std::size_t>(size)) {}

  // Some faults. A rank dies: nothing that it sends from message `from_message` on arrives.
  static Fault dead(int rank, int from_message) {
    return [=](int from, int, int, int number) {
      return Fate{from == rank && number >= from_message ? 0 : 1, 0};
    };
  }
  // Every message is late by its own number of tries, some come twice or three times.
  static Fault jumbled(std::uint64_t seed, int most_delay, bool duplicates) {
    return [=](int from, int to, int tag, int number) {
      std::seed_seq words{static_cast<int>(seed), from, to, tag, number};
      std::mt19937_64 random(words);
      const auto value = random();
      const int delay = static_cast<int>(value % static_cast<std::uint64_t>(most_delay + 1));
      return Fate{duplicates && value >> 60 < 6 ? 2 + static_cast<int>(value >> 63) : 1, delay};
    };
  }

  // Sends complete when their message is received, as long messages of MPI do; a message that was changed
  // meanwhile by its sender arrives changed, so that this is seen.
  void set_rendezvous() { rendezvous_ = true; }
  void set_copy(Copy copy) { copy_ = copy; }
  // How long a rank waits for a message before it looks at its other work again. A device wakes nobody.
  void set_patience(std::chrono::microseconds patience) { patience_ = patience; }

  // Runs body(Rank&) on every rank, each in a thread.
  void run(const std::function<void(Rank&)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([this, r, &body] {
        Rank rank(*this, r);
        body(rank);
        const std::scoped_lock lock(mutex_);
        unfinished_ += rank.unfinished();
      });
    for (std::thread& t : threads) t.join();
  }
  // The same on this thread: the ranks take turns, where they are idle. With ThreadSanitizer they are threads
  // all the same, for it does not follow fibers.
  void run_in_turn(const std::function<void(Rank&)>& body) {
    constexpr int kMost = 16;
    if (kSanitizedThreads || size_ > kMost) return run(body);
    static thread_local sim::Fibers fibers(kMost);
    fibers_ = &fibers;
    for (int r = 0; r < size_; ++r)
      fibers.set(static_cast<std::size_t>(r), [this, r, &body] {
        Rank rank(*this, r);
        body(rank);
        unfinished_ += rank.unfinished();
      });
    for (int over = 0; over < size_;) {
      over = 0;
      for (std::size_t r = 0; r < mailboxes_.size(); ++r) {
        if (!fibers.is_over(r)) fibers.resume(r);
        if (fibers.thrown(r)) std::terminate();  // as in a thread: the other ranks would wait for this one
        over += fibers.is_over(r);
      }
    }
    fibers_ = nullptr;
  }
  // Requests never completed plus messages never received; 0 after a sound run.
  std::size_t leaked() const {
    std::size_t n = static_cast<std::size_t>(unfinished_);
    for (const auto& [key, queue] : queues_) n += queue.size();
    return n;
  }

 private:
  struct Queued {
    Message message;
    int delay = 0;
    const std::byte* source = nullptr;
    std::shared_ptr<std::atomic<bool>> taken{};  // of a rendezvous
  };
  void post(int from, int to, int tag, int number, Queued queued) {
    if (tamper_) tamper_(from, to, tag, queued.message);
    const Fate fate = fault_ ? fault_(from, to, tag, number) : Fate{};
    queued.delay = fate.delay;
    const std::scoped_lock lock(mutex_);
    for (int i = 0; i < fate.copies; ++i) queues_[{from, to, tag}].push_back(queued);
    wake(to);
  }
  // The mutex must be held.
  void wake(int rank) {
    Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(rank)];
    ++mailbox.events;
    mailbox.changed.notify_one();
  }
  void wait(int rank, std::uint64_t& seen) {
    if (fibers_ != nullptr) return fibers_->leave();
    if (delay_seed_ != 0 || fault_) return std::this_thread::yield();
    std::unique_lock lock(mutex_);
    Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(rank)];
    mailbox.changed.wait_for(lock, patience_, [&] { return mailbox.events != seen; });
    seen = mailbox.events;
  }
  bool take(int from, int to, int tag, Message& message) {
    const std::scoped_lock lock(mutex_);
    const auto at = queues_.find({from, to, tag});
    if (at == queues_.end() || at->second.empty()) return false;
    Queued& first = at->second.front();
    if (first.delay-- > 0) return false;
    message = std::move(first.message);
    if (first.taken && !*first.taken) {
      if (!tamper_) copy_(message.data(), first.source, message.size());
      *first.taken = true;
      wake(from);
    }
    at->second.pop_front();
    return true;
  }
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
