// The messages of a reduction that runs many times, between ranks that may have replicas. The lengths are
// known beforehand.
//
// A message goes to all replicas of its target. Replicas compute equal bits, so the receiver uses the first
// copy that arrives and ignores the others. Without replicas there is one copy.
//
// A frame is a Header, then values. counts[0] is the number of the run, so that a late copy is never taken
// for one of a later run. If a receive gets an old message, it is posted again. If it gets nothing, it waits
// for the next run.
//
// No rank waits for ever for a slow or dead replica. A sender keeps up to kLag messages to a replica in
// flight, each in memory of its own. Then it waits for a moment. After that it sends nothing more to this
// replica until the replica has received these messages. A replica that missed messages either receives those
// of a later run and fails, or receives none and times out. (MPI sends very short messages at once, so they
// never lag.)
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "sparse_allreduce/configuration_lists.hpp"
#include "sparse_allreduce/exchange.hpp"

namespace mq::sparse {

// The properties that all messages of a run share.
struct Run {
  int ranks_each = 1, replicas = 1;  // a rank's replicas are rank, rank + ranks_each ...
  std::uint64_t call = 0, number = 0;
};

// The other end of a message, given as the rank of its first replica, and the message's tag and step.
struct Address {
  int peer = 0, tag = 0;
  std::uint32_t step = 0;
};

inline std::size_t frame_bytes(std::size_t payload) { return (sizeof(Header) + payload + 63) / 64 * 64; }

template <Comm C>
class ReplicatedReceive {
 public:
  // For payload > 0 bytes; takes its buffers from `memory`. Throws std::bad_alloc.
  void prepare(const Address& address, std::size_t payload, int replicas, Workspace& memory) {
    address_ = address;
    payload_ = payload;
    copies_.assign(static_cast<std::size_t>(replicas), Copy{});
    for (Copy& copy : copies_) copy.frame = memory.take<std::byte>(frame_bytes(payload)).data();
  }
  int peer() const { return address_.peer; }

  // Begins a run. Call receive_late() and post() afterwards.
  void begin() {
    values_ = nullptr;
    for (Copy& copy : copies_) copy.unusable = {};
  }
  Status post(C& comm, const Run& run) {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const Copy& copy = copies_[i];
      const bool here = copy.full && copy.run >= run.number;
      if (!copy.posted && !here && copy.unusable.ok()) MQ_TRY(post(comm, run, i));
    }
    return {};
  }

  // Checks whether a copy has arrived. Afterwards values() is set, or failure() if no copy is usable.
  Status poll(C& comm, const Run& run, Traffic& traffic) {
    if (values_ != nullptr || !failure_of_all().ok()) return {};
    for (std::size_t i = 0; i < copies_.size(); ++i) {  // all, or messages of a sender would pile up
      MQ_TRY(poll(comm, run, i, traffic));
      if (copies_[i].full && copies_[i].run == run.number && values_ == nullptr)
        values_ = copies_[i].frame + sizeof(Header);
    }
    return {};
  }
  const std::byte* values() const { return values_; }
  Status failure() const { return values_ == nullptr ? failure_of_all() : Status{}; }

  // Takes in messages that arrive late, after a run or at the beginning of the next one.
  Status receive_late(C& comm, const Run& run, Traffic& traffic) {
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (copies_[i].posted) MQ_TRY(poll(comm, run, i, traffic));
    return {};
  }
  bool quiet() const {
    for (const Copy& copy : copies_)
      if (copy.posted) return false;
    return true;
  }

 private:
  struct Copy {
    typename C::Request request{};
    std::byte* frame = nullptr;
    bool posted = false, full = false;  // full: holds a good message of run `run`
    std::uint64_t run = 0;
    Status unusable;  // why the message received cannot be used in this run
  };

  Status post(C& comm, const Run& run, std::size_t i) {
    Copy& copy = copies_[i];
    copy.full = false;
    copy.posted = true;
    return comm.receive(rank(run, i), address_.tag, {copy.frame, sizeof(Header) + payload_}, copy.request);
  }
  int rank(const Run& run, std::size_t i) const {
    return address_.peer + static_cast<int>(i) * run.ranks_each;
  }

  Status poll(C& comm, const Run& run, std::size_t i, Traffic& traffic) {
    Copy& copy = copies_[i];
    while (copy.posted) {
      bool ready = false;
      std::size_t bytes = 0;
      MQ_TRY(comm.test(copy.request, ready, bytes));
      if (!ready) return {};
      copy.posted = false;
      traffic.received_bytes += bytes;
      bool stale = false;
      copy.unusable = accept(copy, run, i, bytes, stale);
      if (stale) MQ_TRY(post(comm, run, i));
    }
    // A replica may be ahead of this rank. But then it has left out this rank's message of the current run.
    if (copy.full && copy.run > run.number && copy.unusable.ok())
      copy.unusable = bad(run, i, "is ahead and has left out the message of this run");
    return {};
  }

  Status accept(Copy& copy, const Run& run, std::size_t i, std::size_t bytes, bool& stale) {
    Header header{.magic = 0};
    if (bytes >= sizeof header && bytes <= sizeof header + payload_)
      std::memcpy(&header, copy.frame, sizeof header);
    const std::uint64_t number = header.counts[0];
    Status usable = check(header, rank(run, i), run.call, address_.step);
    if (usable.ok() || usable.code() == Code::peer_failed) stale = number < run.number;
    if (stale) return {};
    if (!usable.ok()) return usable;
    if (header.payload_bytes != payload_ || bytes != sizeof header + payload_)
      return bad(run, i, "sent the wrong number of values");
    if (number > run.number && copies_.size() == 1) return bad(run, i, "sent values of a later run");
    copy.full = true;
    copy.run = number;
    return {};
  }

  Status bad(const Run& run, std::size_t i, const char* what) const {
    return status_of(Code::bad_frame, [&] { return "rank " + std::to_string(rank(run, i)) + " " + what; });
  }
  Status failure_of_all() const {
    for (const Copy& copy : copies_)
      if (copy.unusable.ok()) return {};
    return copies_.empty() ? Status{} : copies_[0].unusable;
  }

  Address address_;
  std::size_t payload_ = 0;
  std::vector<Copy> copies_;
  const std::byte* values_ = nullptr;
};

template <Comm C>
class ReplicatedSend {
 public:
  static constexpr int kLag = 2;

  // own: the values stay on this rank and are never sent.
  void prepare(const Address& address, std::size_t payload, bool own, int replicas, Workspace& memory) {
    address_ = address;
    payload_ = payload;
    replicas_ = static_cast<std::size_t>(replicas);
    // Every replica may hold kLag frames, and one more must be free for writing.
    const std::size_t frames = own || payload == 0 || replicas == 1 ? 1 : kLag * replicas_ + 1;
    frames_.assign(frames, {});
    for (Frame& frame : frames_) {
      frame.bytes = memory.take<std::byte>(frame_bytes(payload)).data();
      frame.sends.resize(own ? 0 : replicas_);
    }
    late_.assign(replicas_, 0);
  }

  // Selects a frame that is free for writing. With replicas there always is one, because at most kLag sends
  // to a replica are in flight. Without replicas, the sends of the previous run must be complete.
  void begin() {
    now_ = 0;
    while (now_ + 1 < frames_.size() && frames_[now_].under_way > 0) ++now_;
  }
  std::byte* values() const { return frames_[now_].bytes + sizeof(Header); }

  // Sends the values; if there is an error, only a header with its code.
  Status send(C& comm, const Run& run, Code error, Traffic& traffic) {
    if (payload_ == 0) return {};
    Header header;
    header.error_code = static_cast<std::uint16_t>(error);
    header.call = run.call;
    header.step = address_.step;
    header.counts[0] = run.number;
    header.payload_bytes = error == Code::ok ? payload_ : 0;
    Frame& frame = frames_[now_];
    std::memcpy(frame.bytes, &header, sizeof header);
    const std::span<const std::byte> out{frame.bytes, sizeof header + header.payload_bytes};
    for (std::size_t i = 0; i < replicas_; ++i) {
      if (under_way(i) >= kLag && replicas_ > 1) continue;
      Send& send = frame.sends[i];
      send.active = true;
      ++frame.under_way;
      traffic.sent_bytes += out.size();
      ++traffic.messages_sent;
      MQ_TRY(
          comm.send(address_.peer + static_cast<int>(i) * run.ranks_each, address_.tag, out, send.request));
    }
    return {};
  }

  Status poll(C& comm) {
    for (Frame& frame : frames_) {
      if (frame.under_way == 0) continue;
      for (Send& send : frame.sends) {
        if (!send.active) continue;
        bool ready = false;
        std::size_t ignored = 0;
        MQ_TRY(comm.test(send.request, ready, ignored));
        if (!ready) continue;
        send.active = false;
        --frame.under_way;
      }
    }
    return {};
  }
  // Whether it is worth while to wait before begin(): a replica lags that did not lag before.
  bool lags() {
    bool any = false;
    for (std::size_t i = 0; i < late_.size(); ++i) {
      if (under_way(i) < kLag) late_[i] = 0;
      any = any || (under_way(i) >= kLag && late_[i] == 0);
    }
    return any;
  }
  void give_up() {
    for (std::size_t i = 0; i < late_.size(); ++i) late_[i] = under_way(i) >= kLag;
  }
  bool quiet() const {
    for (const Frame& frame : frames_)
      if (frame.under_way > 0) return false;
    return true;
  }
  int peer() const { return address_.peer; }

 private:
  struct Send {
    typename C::Request request{};
    bool active = false;
  };
  struct Frame {
    std::byte* bytes = nullptr;
    std::vector<Send> sends;  // by replica
    int under_way = 0;
  };
  int under_way(std::size_t replica) const {
    int n = 0;
    for (const Frame& frame : frames_) n += !frame.sends.empty() && frame.sends[replica].active;
    return n;
  }

  Address address_;
  std::size_t payload_ = 0, replicas_ = 1, now_ = 0;
  std::vector<Frame> frames_;
  std::vector<char> late_;  // by replica: it lags, and this rank has waited for it already
};

}  // namespace mq::sparse
