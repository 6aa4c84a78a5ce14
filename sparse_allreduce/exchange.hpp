// Messages between the ranks of a sparse reduction, a round at a time: post what is to be sent and received,
// then wait for all of it. A message whose length only its sender knows is two: a Header of fixed size, and
// the payload that it announces; so receives are posted with their exact size, and a rank in trouble still
// keeps to the schedule by announcing its trouble and no payload.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory_resource>
#include <span>
#include <string>

#include "mpi_quant/base/comm.hpp"
#include "sparse_allreduce/sparse.hpp"

namespace mq::sparse {

inline constexpr std::uint32_t kMagic = 0x5351504d;  // "MPQS"
inline constexpr std::uint16_t kVersion = 1;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t trouble = 0;     // Code: no payload follows, and the sender's result is an error
  std::uint64_t call = 0;        // equal on all ranks, different for every call
  std::uint32_t step = 0;        // of the schedule
  std::uint32_t format = 0;      // of the payload; what a step makes of it
  std::uint64_t counts[2] = {};  // likewise
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(Header) == 48);

inline double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// When a peer is given up. Looked at while there is nothing to do, hence rarely enough to cost nothing.
class Deadline {
 public:
  // timeout_s <= 0: never.
  explicit Deadline(double timeout_s = 0) : timeout_s_(timeout_s), end_s_(clock_s() + timeout_s) {}
  bool over() const { return timeout_s_ > 0 && clock_s() > end_s_; }
  Status error(int peer) const {
    return status_of(Code::timed_out, [&] {
      return "rank " + std::to_string(peer) + " sent nothing for " + std::to_string(timeout_s_) +
             " s (mpiq_timeout)";
    });
  }

 private:
  double timeout_s_, end_s_;
};

// Buffers belong to the communication until wait() has returned, and after an error other than bad_frame for
// ever.
template <Comm C>
class Exchange {
 public:
  Exchange(C& comm, const Deadline& deadline, Traffic& traffic)
      : comm_(comm), deadline_(deadline), traffic_(traffic) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  // No more memory is needed for this many messages at once; nor, without it, for few.
  void make_room(std::size_t messages) { spare_.resize(messages); }

  Status send(int peer, int tag, std::span<const std::byte> out) {
    traffic_.sent_bytes += out.size();
    ++traffic_.messages_sent;
    return comm_.send(peer, tag, out, add({{}, peer, false, 0, nullptr}).request);
  }
  // A message of another length than `in` is an error of wait(); or, where `length` is given, no error:
  // wait() writes the length there.
  Status receive(int peer, int tag, std::span<std::byte> in, std::size_t* length = nullptr) {
    return comm_.receive(peer, tag, in, add({{}, peer, true, in.size(), length}).request);
  }
  // Until everything posted is complete. A message of the wrong length is bad_frame, given when all the
  // others are complete too, so that the schedule can go on; any other error is one of the communication, or
  // the deadline's, and leaves it broken.
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
      return "rank " + std::to_string(p.peer) + " sent " + std::to_string(p.bytes) + " bytes in place of " +
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
  std::pmr::list<Pending> pending_{&memory_}, spare_{&memory_};  // requests must stay where they are
};

// After such an error messages may be under way for ever.
inline bool broken(const Status& status) {
  return status.code() == Code::timed_out || status.code() == Code::mpi_failed;
}

// Whether a header is the one that this step of this call expects; else why not.
inline Status check(const Header& header, int from, std::uint64_t call, std::uint32_t step) {
  if (header.magic != kMagic || header.version != kVersion)
    return status_of(Code::bad_frame, [&] { return "rank " + std::to_string(from) + " sent no header"; });
  if (header.call != call || header.step != step)
    return status_of(Code::bad_frame, [&] {
      return "rank " + std::to_string(from) + " sent a message of another call or step";
    });
  if (header.trouble != 0)
    return status_of(Code::peer_failed,
                     [&] { return "rank " + std::to_string(from) + " could not go on with its part"; });
  return {};
}

}  // namespace mq::sparse
