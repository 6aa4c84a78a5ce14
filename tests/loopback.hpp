// Threads as ranks: a Comm whose ranks are threads of one process, so that plans are swept over many rank
// counts in seconds and ThreadSanitizer sees the executor. Can delay and damage messages on purpose.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <tuple>
#include <vector>

#include "mpi_quant/base/comm.hpp"

namespace mq::test {

class Loopback {
 public:
  using Message = std::vector<std::byte>;
  // Called for every message before it is delivered; may change it.
  using Tamper = std::function<void(int from, int to, int tag, Message&)>;

  class Rank {
   public:
    struct Request {
      bool receive = false;
      int peer = 0, tag = 0;
      std::span<std::byte> in;
      int polls_left = 0;  // until it may complete
    };
    Rank(Loopback& net, int rank)
        : net_(net), rank_(rank), random_(static_cast<std::uint64_t>(rank) + net.delay_seed_) {}
    int rank() const { return rank_; }
    int size() const { return net_.size_; }
    Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
      ++unfinished_;
      request = {false, to, tag, {}, delay()};
      net_.post(rank_, to, tag, Message(out.begin(), out.end()));
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
        if (const std::size_t n = std::min(message.size(), request.in.size()); n)
          std::memcpy(request.in.data(), message.data(), n);
      }
      --unfinished_;
      done = true;
      return {};
    }
    void idle() { std::this_thread::yield(); }
    void busy() {}
    int unfinished() const { return unfinished_; }

   private:
    int delay() { return net_.delay_seed_ ? static_cast<int>(random_() % 7) : 0; }
    Loopback& net_;
    int rank_, unfinished_ = 0;
    std::mt19937_64 random_;
    std::map<std::pair<int, int>, std::deque<Request*>> posted_;
  };

  // delay_seed != 0 makes requests complete after a random number of polls.
  explicit Loopback(int size, std::uint64_t delay_seed = 0, Tamper tamper = {})
      : size_(size), delay_seed_(delay_seed), tamper_(std::move(tamper)) {}

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
  // Requests never completed plus messages never received; 0 after a sound run.
  std::size_t leaked() const {
    std::size_t n = static_cast<std::size_t>(unfinished_);
    for (const auto& [key, queue] : queues_) n += queue.size();
    return n;
  }

 private:
  void post(int from, int to, int tag, Message message) {
    if (tamper_) tamper_(from, to, tag, message);
    const std::scoped_lock lock(mutex_);
    queues_[{from, to, tag}].push_back(std::move(message));
  }
  bool take(int from, int to, int tag, Message& message) {
    const std::scoped_lock lock(mutex_);
    const auto at = queues_.find({from, to, tag});
    if (at == queues_.end() || at->second.empty()) return false;
    message = std::move(at->second.front());
    at->second.pop_front();
    return true;
  }
  int size_;
  std::uint64_t delay_seed_;
  Tamper tamper_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<Message>> queues_;
  int unfinished_ = 0;
};

static_assert(Comm<Loopback::Rank>);

}  // namespace mq::test
