// What the algorithms of the union allreduce share: the state of one call on one rank, its local error, the
// exchange of frames between two ranks, and the exchange of streams between all ranks.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/union_job.hpp"
#include "sparse_allreduce/union_result.hpp"

namespace mq::sparse {

// MPI counts bytes in an int. If a message would be longer, all ranks that would see it return bad_argument.
inline constexpr std::uint64_t kMostMessage = (std::uint64_t{1} << 31) - 1;
inline Status check_message(std::uint64_t bytes) {
  if (bytes <= kMostMessage) return {};
  return status_of(Code::bad_argument, [&] {
    return "a message of a sparse reduction would have " + std::to_string(bytes) +
           " bytes, more than 2^31 - 1";
  });
}

// Where the streams of all ranks are short, an allgather needs one message a step: a header with its payload
// behind it. So it has room for all of them, and for each as long as the longest list may need. This is the
// room of a stream; 0: they are not short. Equal on all ranks.
inline constexpr std::size_t kShortStreams = std::size_t{256} << 10;
inline std::size_t short_stream_room(const Entry& entry, std::uint64_t most_entries, int ranks) {
  const std::size_t each = kShortStreams / static_cast<std::size_t>(ranks);
  if (most_entries > each / entry.bytes()) return 0;  // and so nothing below overflows
  const std::size_t room = sizeof(Header) + frame_room(entry, static_cast<std::size_t>(most_entries));
  return room <= each ? room : 0;
}

// Steps of the schedule; the values of Header::step.
inline constexpr std::uint32_t kStepParts = 1, kStepGather = 2, kStepPresence = 3, kStepDoubling = 16;

struct Frame {
  Header* header = nullptr;  // in control memory
  std::span<const std::byte> payload;
};

template <Comm C>
class UnionCall {
 public:
  // Takes all memory that messages need. `asked` may be completed afterwards.
  UnionCall(C& comm, const UnionJob& asked, Workspace& workspace, Traffic& traffic)
      : job(asked),
        memory(workspace),
        rank(comm.rank()),
        ranks(comm.size()),
        control_(workspace.take<Header>(3 * static_cast<std::size_t>(comm.size()) + 4)),
        deadline_(job.timeout_s),
        exchange_(comm, deadline_, traffic) {
    std::fill(control_.begin(), control_.end(), Header{});
    exchange_.make_room(2 * static_cast<std::size_t>(ranks));
  }
  UnionCall(const UnionCall&) = delete;
  UnionCall& operator=(const UnionCall&) = delete;

  const UnionJob& job;
  Workspace& memory;
  const int rank, ranks;
  // Of this rank. After it, the rank follows the schedule with empty payloads, and returns it at the end.
  Status local_error;

  void note(Status status) {
    if (local_error.ok()) local_error = std::move(status);
  }
  // Calls f, which returns a Status, unless there is a local error. An error of f becomes the local error.
  template <class F>
  void attempt(const F& f) {
    if (!local_error.ok()) return;
    try {
      note(f());
    } catch (const std::bad_alloc&) {
      note(status_of(Code::no_memory, [] { return "no memory for a sparse reduction"; }));
    }
  }

  Range whole() const { return {0, job.size}; }
  // Slice r of the indices. The bounds are equal on all ranks and multiples of 64 (except the end of the
  // vector).
  Range slice(int r) const { return {cut(r), cut(r + 1)}; }

  int rank_after(std::size_t distance) const {
    return static_cast<int>((static_cast<std::size_t>(rank) + distance) % static_cast<std::size_t>(ranks));
  }

  // Takes headers from control memory, one after the other. All ranks make the same sequence of calls.
  Header* take_header(std::uint32_t step) {
    Header* const header = &control_[taken_++];
    header->call = job.call;
    header->step = step;
    return header;
  }
  std::span<Header> take_headers(std::size_t n) {
    return control_.subspan(std::exchange(taken_, taken_ + n), n);
  }
  std::size_t mark() const { return taken_; }
  void release(std::size_t mark) { taken_ = mark; }  // only when no message is in flight

  void send_header(int to, Header& header) {
    if (!local_error.ok()) announce(header);
    post_header(to, header);
  }
  void post_header(int to, const Header& header) {
    keep_error(exchange_.send(to, job.first_tag, std::as_bytes(std::span(&header, 1))));
  }
  void receive_header(int from, Header& header) {
    keep_error(exchange_.receive(from, job.first_tag, std::as_writable_bytes(std::span(&header, 1))));
  }
  void send(int to, std::span<const std::byte> bytes) {
    keep_error(exchange_.send(to, job.first_tag + 1, bytes));
  }
  void receive(int from, std::span<std::byte> bytes) {
    keep_error(exchange_.receive(from, job.first_tag + 1, bytes));
  }
  // Completes what was posted. A message of the wrong length becomes the local error; any other error is
  // returned.
  Status wait() {
    if (!post_error_.ok()) return std::move(post_error_);
    deadline_ = Deadline(job.timeout_s);  // time-outs count from here
    Status status = exchange_.wait();
    if (status.ok() || status.code() != Code::bad_frame) return status;
    note(std::move(status));
    return {};
  }
  void worked(Work work, std::size_t entries) { sparse::worked(exchange_.comm(), work, entries); }
  // Makes the header announce this rank's error.
  void announce(Header& header) const {
    header.error_code = static_cast<std::uint16_t>(local_error.code());
    header.counts[0] = header.counts[1] = header.payload_bytes = 0;
  }

  // Sends a frame to rank `to` and receives one from rank `from`; -1 means no rank. The received payload is
  // in workspace memory, and its header is checked against the range.
  Status exchange(int to, const Frame& out, int from, Frame& in, Range range) {
    if (to >= 0) send_header(to, *out.header);
    if (from >= 0) receive_header(from, *in.header);
    MQ_TRY(wait());
    std::span<std::byte> room;
    if (from >= 0) {
      attempt([&]() -> Status {
        MQ_TRY(check(*in.header, from, job.call, out.header->step));
        MQ_TRY(check_frame(job.entry, *in.header, range, from));
        room = memory.take<std::byte>(in.header->payload_bytes);
        return {};
      });
      receive(from, room);
    }
    if (to >= 0) send(to, out.header->error_code ? std::span<const std::byte>{} : out.payload);
    MQ_TRY(wait());
    in.payload = room;
    return {};
  }

  // Sends out[r] to each rank r and receives theirs[r] from it, in workspace memory. Without a local error,
  // both have `ranks` elements. `headers` has 2 * ranks elements; the frames of `out` use the first half.
  // check_as(header, rank) returns whether a header is acceptable.
  template <class Check>
  Status alltoall(std::span<Header> headers, std::span<const Frame> out, std::span<Frame> theirs,
                  const Check& check_as) {
    const auto p = static_cast<std::size_t>(ranks);
    const std::span<Header> in = headers.subspan(p, p);
    const bool sound = local_error.ok();  // announced payloads are sent, whatever else happens
    for (std::size_t d = 1; d < p; ++d) receive_header(rank_after(d), in[d]);
    for (std::size_t d = 1; d < p; ++d) {
      const int to = rank_after(p - d);
      send_header(to, headers[static_cast<std::size_t>(to)]);
    }
    MQ_TRY(wait());
    for (std::size_t d = 1; d < p; ++d) {
      const int from = rank_after(d);
      std::span<std::byte> room;
      attempt([&]() -> Status {
        MQ_TRY(check(in[d], from, job.call, headers[0].step));
        MQ_TRY(check_as(in[d], from));
        room = memory.take<std::byte>(in[d].payload_bytes);
        theirs[static_cast<std::size_t>(from)] = {&in[d], room};
        return {};
      });
      receive(from, room);
    }
    for (std::size_t d = 1; d < p; ++d) {
      const int to = rank_after(p - d);
      send(to, sound ? out[static_cast<std::size_t>(to)].payload : std::span<const std::byte>{});
    }
    return wait();
  }

  // Allgather of streams by dissemination: in step s each rank has 2^s streams, its own and streams of the
  // ranks after it, and receives up to 2^s more. The headers are exchanged first, and then the payloads,
  // whose lengths are known by then. check_as(header, rank) returns whether a header is acceptable. frames[r]
  // becomes rank r's stream.
  template <class Check>
  Status allgather(Header& own, std::span<const std::byte> payload, std::span<Frame> frames,
                   const Check& check_as) {
    const auto p = static_cast<std::size_t>(ranks);
    const std::span<Header> headers = take_headers(p);
    if (!local_error.ok()) announce(own);
    headers[0] = own;
    MQ_TRY(disseminate([&](int to, int from, std::size_t distance, std::size_t n) {
      keep_error(exchange_.send(to, job.first_tag, std::as_bytes(headers.first(n))));
      keep_error(
          exchange_.receive(from, job.first_tag, std::as_writable_bytes(headers.subspan(distance, n))));
      return wait();
    }));
    std::span<std::size_t> offsets;
    std::span<std::byte> all;
    attempt([&]() -> Status {
      offsets = memory.take<std::size_t>(p + 1);
      offsets[0] = 0;
      for (std::size_t i = 0; i < p; ++i) {
        const int r = rank_after(i);
        MQ_TRY(check(headers[i], r, job.call, own.step));
        MQ_TRY(check_as(headers[i], r));
        offsets[i + 1] = offsets[i] + headers[i].payload_bytes;
        MQ_TRY(check_message(offsets[i + 1]));
      }
      all = memory.take<std::byte>(offsets[p]);
      if (p > 2 && !payload.empty()) std::memcpy(all.data(), payload.data(), payload.size());
      return {};
    });
    MQ_TRY(disseminate([&](int to, int from, std::size_t distance, std::size_t n) {
      const bool whole = local_error.ok();  // an incomplete stream is not forwarded
      const std::span<const std::byte> streams = n == 1 ? payload : all.first(whole ? offsets[n] : 0);
      send(to, whole ? streams : std::span<const std::byte>{});
      receive(from, whole ? all.subspan(offsets[distance], offsets[distance + n] - offsets[distance])
                          : std::span<std::byte>{});
      return wait();
    }));
    if (local_error.ok()) {
      frames[static_cast<std::size_t>(rank)] = {&headers[0], payload};
      for (std::size_t i = 1; i < p; ++i)
        frames[static_cast<std::size_t>(rank_after(i))] = {&headers[i],
                                                           all.subspan(offsets[i], headers[i].payload_bytes)};
    }
    return {};
  }

  // The same for streams of which each has room in `room` bytes, its header included: each step is one
  // message. Streams lie one behind the other. A rank that cannot read them passes none of them on: it sends
  // a header that announces its error.
  template <class Check>
  Status allgather_short(Header& own, std::span<const std::byte> payload, std::span<Frame> frames,
                         std::size_t room, const Check& check_as) {
    const auto p = static_cast<std::size_t>(ranks);
    const std::span<Header> headers = take_headers(p);
    std::span<std::size_t> ends;  // of the first i streams
    std::span<std::byte> all;
    attempt([&]() -> Status {
      ends = memory.take<std::size_t>(p + 1);
      all = memory.take<std::byte>(p * room);
      return {};
    });
    if (!local_error.ok()) announce(own);
    headers[0] = own;
    bool readable = !all.empty();
    if (readable) {
      ends[0] = 0;
      ends[1] = sizeof(Header) + own.payload_bytes;
      std::memcpy(all.data(), &own, sizeof(Header));
      if (own.payload_bytes > 0) std::memcpy(&all[sizeof(Header)], payload.data(), own.payload_bytes);
    }
    MQ_TRY(disseminate([&](int to, int from, std::size_t distance, std::size_t n) -> Status {
      if (!readable) announce(headers[0]);
      send(to, readable ? all.first(ends[n]) : std::as_bytes(headers.first(1)));
      std::span<std::byte> in = readable ? all.subspan(ends[distance], n * room) : std::span<std::byte>{};
      std::size_t length = 0;
      keep_error(exchange_.receive(from, job.first_tag + 1, in, &length));
      MQ_TRY(wait());
      in = in.first(std::min(length, in.size()));
      if (!readable || length > in.size() ||
          !read_streams(in, headers.subspan(distance, n), ends.subspan(distance, n + 1))) {
        note(why_unreadable(in, from, own.step));
        readable = false;
      }
      return {};
    }));
    for (std::size_t i = 0; i < p; ++i)
      attempt([&]() -> Status {
        const int r = rank_after(i);
        MQ_TRY(check(headers[i], r, job.call, own.step));
        MQ_TRY(check_as(headers[i], r));
        frames[static_cast<std::size_t>(r)] = {
            &headers[i], all.subspan(ends[i] + sizeof(Header), headers[i].payload_bytes)};
        return {};
      });
    return {};
  }

  // Calls step(to, from, distance, n) for each step of a dissemination, which completes what it posts.
  template <class Step>
  Status disseminate(const Step& step) {
    const auto p = static_cast<std::size_t>(ranks);
    for (std::size_t distance = 1; distance < p; distance *= 2)
      MQ_TRY(
          step(rank_after(p - distance), rank_after(distance), distance, std::min(distance, p - distance)));
    return {};
  }

 private:
  // Reads the headers of streams that lie one behind the other. ends[0] is where they begin; sets the other
  // ends. Gives whether they are whole and fill `bytes`.
  static bool read_streams(std::span<const std::byte> bytes, std::span<Header> headers,
                           std::span<std::size_t> ends) {
    for (std::size_t i = 0; i < headers.size(); ++i) {
      if (bytes.size() < sizeof(Header)) return false;
      std::memcpy(&headers[i], bytes.data(), sizeof(Header));
      if (headers[i].payload_bytes > bytes.size() - sizeof(Header)) return false;
      const std::size_t length = sizeof(Header) + headers[i].payload_bytes;
      ends[i + 1] = ends[i] + length;
      bytes = bytes.subspan(length);
    }
    return bytes.empty();
  }
  // Of a message that read_streams() cannot read: it may be the header of a rank with an error.
  Status why_unreadable(std::span<const std::byte> bytes, int from, std::uint32_t step) const {
    Header header;
    if (bytes.size() == sizeof header) {
      std::memcpy(&header, bytes.data(), sizeof header);
      MQ_TRY(check(header, from, job.call, step));
    }
    return status_of(Code::bad_frame,
                     [&] { return "rank " + std::to_string(from) + " sent malformed streams"; });
  }
  std::uint64_t cut(int r) const {
    if (r == ranks) return job.size;
    const auto p = static_cast<std::uint64_t>(ranks), i = static_cast<std::uint64_t>(r);
    return (job.size / p * i + job.size % p * i / p) / 64 * 64;
  }
  void keep_error(Status status) {
    if (post_error_.ok()) post_error_ = std::move(status);
  }

  std::span<Header> control_;
  std::size_t taken_ = 0;
  Deadline deadline_;
  Exchange<C> exchange_;
  Status post_error_;  // the first error of posting
};

}  // namespace mq::sparse
