// Messages between the ranks of a sparse reduction, in rounds: post all sends and receives of a round, then
// wait for all of them.
//
// If only the sender knows the length of its data, it sends two messages: a Header of fixed size, then the
// payload that the header announces. So every receive is posted with its exact size. A rank with a local
// error follows the same schedule: it sends a header with its error code, and no payload.
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
  std::uint16_t error_code = 0;  // Code of the error of the sender, whose call fails; no payload follows
  std::uint64_t call = 0;        // equal on all ranks, different for every call
  std::uint32_t step = 0;        // number of the step in the schedule
  std::uint32_t format = 0;      // of the payload; each step defines its meaning
  std::uint64_t counts[2] = {};  // each step defines their meaning
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(Header) == 48);

inline double clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Tells the communication that this rank has worked on so many entries of lists. One in virtual time, which
// has `worked`, lets the work take time. For all others this is nothing.
enum class Work : std::uint8_t { encode, decode, merge };
template <Comm C>
void worked(C& comm, Work work, std::size_t entries) {
  if constexpr (requires { comm.worked(work, entries); }) comm.worked(work, entries);
}

// When to stop waiting for a peer. Checked only while there is nothing else to do, so the check costs
// nothing.
class Deadline {
 public:
  // timeout_s <= 0: wait for ever.
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

// Buffers belong to the communication until wait() returns. After an error other than bad_frame they belong
// to it for ever.
template <Comm C>
class Exchange {
 public:
  Exchange(C& comm, const Deadline& deadline, Traffic& traffic)
      : comm_(comm), deadline_(deadline), traffic_(traffic) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  void worked(Work work, std::size_t entries) { sparse::worked(comm_, work, entries); }
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

// Checks that a header belongs to this step of this call. If not, the Status says why.
inline Status check(const Header& header, int from, std::uint64_t call, std::uint32_t step) {
  if (header.magic != kMagic || header.version != kVersion)
    return status_of(Code::bad_frame,
                     [&] { return "rank " + std::to_string(from) + " sent an invalid header"; });
  if (header.call != call || header.step != step)
    return status_of(Code::bad_frame, [&] {
      return "rank " + std::to_string(from) + " sent a message of another call or step";
    });
  if (header.error_code != 0)
    return status_of(Code::peer_failed,
                     [&] { return "rank " + std::to_string(from) + " reported an error"; });
  return {};
}

}  // namespace mq::sparse
