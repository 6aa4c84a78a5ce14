// Messages between ranks in rounds: post all sends and receives of a round, then wait for all of them. A
// receive is posted with its exact size, or with the most that may come.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory_resource>
#include <span>
#include <string>

#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/base/ticks.hpp"

namespace mq {

// Bytes and messages of one rank.
struct Traffic {
  std::uint64_t sent_bytes = 0, received_bytes = 0, messages_sent = 0;
};

// When to stop waiting for a peer. Checked only while there is nothing else to do, so the check costs
// nothing.
class Deadline {
 public:
  // timeout_s <= 0: wait for ever.
  explicit Deadline(double timeout_s = 0) : timeout_s_(timeout_s), end_s_(now_s() + timeout_s) {}
  bool over() const { return timeout_s_ > 0 && now_s() > end_s_; }
  Status error(int peer) const {
    return status_of(Code::timed_out, [&] {
      return "rank " + std::to_string(peer) + " sent nothing for " + std::to_string(timeout_s_) +
             " s (mpiq_timeout)";
    });
  }

 private:
  double timeout_s_, end_s_;
};

// Buffers belong to the communication until wait() returns. After an error other than bad_frame they belong
// to it for ever.
template <Comm C>
class Exchange {
 public:
  Exchange(C& comm, const Deadline& deadline, Traffic& traffic)
      : comm_(comm), deadline_(deadline), traffic_(traffic) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  C& comm() { return comm_; }
  // Reserves memory for this many messages at once, so that posting them allocates nothing. A few messages
  // need no reservation.
  void make_room(std::size_t messages) { spare_.resize(messages); }

  Status send(int peer, int tag, std::span<const std::byte> out) {
    traffic_.sent_bytes += out.size();
    ++traffic_.messages_sent;
    return comm_.send(peer, tag, out, add({{}, peer, false, 0, nullptr}).request);
  }
  // If a message has a different length than `in`, wait() returns an error. With `length`, it is no error:
  // wait() stores the length there.
  Status receive(int peer, int tag, std::span<std::byte> in, std::size_t* length = nullptr) {
    return comm_.receive(peer, tag, in, add({{}, peer, true, in.size(), length}).request);
  }
  // Waits until everything posted is complete. If a message has the wrong length, wait() completes all others
  // and then returns bad_frame, so the schedule can continue. Any other error comes from the communication or
  // from the deadline; the communication is unusable after it.
  Status wait() {
    Status lengths;
    std::size_t left = pending_.size();
    for (std::size_t idle = 0; left > 0;) {
      bool moved = false;
      for (Pending& p : pending_) {
        if (p.done) continue;
        MQ_TRY(comm_.test(p.request, p.done, p.bytes));
        if (!p.done) continue;
        moved = true;
        --left;
        if (!p.receives) continue;
        traffic_.received_bytes += p.bytes;
        if (p.length != nullptr)
          *p.length = p.bytes;
        else if (p.bytes != p.expected && lengths.ok())
          lengths = bad_length(p);
      }
      if (moved) {
        comm_.busy();
      } else if (left > 0) {
        comm_.idle();
        if (++idle % 64 == 0 && deadline_.over()) return deadline_.error(first_missing());
      }
    }
    spare_.splice(spare_.begin(), pending_);
    return lengths;
  }

 private:
  struct Pending {
    typename C::Request request;
    int peer;
    bool receives;
    std::size_t expected;
    std::size_t* length;
    std::size_t bytes = 0;
    bool done = false;
  };
  Pending& add(const Pending& message) {
    if (spare_.empty()) spare_.emplace_back();
    spare_.front() = message;
    pending_.splice(pending_.end(), spare_, spare_.begin());
    return pending_.back();
  }
  static Status bad_length(const Pending& p) {
    return status_of(Code::bad_frame, [&] {
      return "rank " + std::to_string(p.peer) + " sent " + std::to_string(p.bytes) + " bytes instead of " +
             std::to_string(p.expected);
    });
  }
  int first_missing() const {
    for (const Pending& p : pending_)
      if (!p.done && p.receives) return p.peer;
    for (const Pending& p : pending_)
      if (!p.done) return p.peer;
    return -1;
  }

  C& comm_;
  const Deadline& deadline_;
  Traffic& traffic_;
  std::array<std::byte, 1024> few_;
  std::pmr::monotonic_buffer_resource memory_{few_.data(), few_.size()};
  std::pmr::list<Pending> pending_{&memory_}, spare_{&memory_};  // lists: a request must not move
};

// After such an error, messages may stay in flight for ever.
inline bool broken(const Status& status) {
  return status.code() == Code::timed_out || status.code() == Code::mpi_failed;
}

// Replaces each value by its maximum over all ranks. Dissemination: ceil(log2 P) messages. `buffer` has room
// for the values twice; after an error it belongs to the communication, as all buffers do.
template <Comm C>
Status max_over_ranks(Exchange<C>& exchange, int tag, std::span<double> values, std::span<std::byte> buffer) {
  const int p = exchange.comm().size(), rank = exchange.comm().rank();
  const std::span<std::byte> sent = buffer.first(values.size_bytes()),
                             received = buffer.subspan(sent.size(), sent.size());
  for (int distance = 1; distance < p; distance *= 2) {
    std::memcpy(sent.data(), values.data(), sent.size());
    MQ_TRY(exchange.receive((rank - distance + p) % p, tag, received));
    MQ_TRY(exchange.send((rank + distance) % p, tag, sent));
    MQ_TRY(exchange.wait());
    for (std::size_t i = 0; i < values.size(); ++i) {
      double theirs = 0;
      std::memcpy(&theirs, &received[i * sizeof theirs], sizeof theirs);
      values[i] = std::max(values[i], theirs);
    }
  }
  return {};
}

}  // namespace mq
