// The agreement that opens every call: all ranks learn whether all signatures are equal before any rank waits
// for data that may never come or touches a residual. Separate from the executor, which may rely on it.
//
// Dissemination (Hensgen, Finkel, Manber 1988): in round k, rank r sends what it knows to r + 2^k and learns
// what r - 2^k knows; after ceil(log2 p) rounds it knows about everyone. What a rank knows is a Hello: the
// lowest rank it heard of and the lowest whose signature differs from that one's. Two such summaries merge
// into the summary of both sets, so all ranks end with the same one. The schedule depends on the number of
// ranks only: calls that disagree in everything else still meet in it.
#pragma once

#include <bit>
#include <cstring>
#include <string>

#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/frame.hpp"

namespace mq {

inline constexpr int kHelloTag = 32000;  // frames use small tags, see Execution::tag

// The summary of the union of two sets of ranks from their summaries.
inline Hello merge(const Hello& a, const Hello& b) {
  const bool a_first = a.first_rank <= b.first_rank;
  Hello low = a_first ? a : b;
  const Hello& high = a_first ? b : a;
  const auto offer = [&](int rank, const Signature& signature) {
    if (signature == low.first || (low.differs && low.other_rank <= rank)) return;
    low.differs = 1;
    low.other_rank = rank;
    low.other = signature;
  };
  offer(high.first_rank, high.first);
  if (high.differs) offer(high.other_rank, high.other);
  return low;
}

// What a summary of all ranks means: ok, or the error with both sides' names.
Status verdict(const Hello& summary);

// Sends `out` and receives `in` between two peers; both finished on return. False in *fits if `in` was not
// filled exactly.
template <Comm C>
Status exchange_now(C& comm, int to, int from, int tag, std::span<const std::byte> out,
                    std::span<std::byte> in, bool& fits) {
  typename C::Request send{}, receive{};
  MQ_TRY(comm.receive(from, tag, in, receive));
  MQ_TRY(comm.send(to, tag, out, send));
  bool sent = false, received = false;
  std::size_t bytes = 0, ignored = 0;
  while (!sent || !received) {
    if (!received) MQ_TRY(comm.test(receive, received, bytes));
    if (!sent) MQ_TRY(comm.test(send, sent, ignored));
    if (!sent || !received) comm.idle();
  }
  comm.busy();
  fits = bytes == in.size();
  return {};
}

// What agree() sends from and receives into. Belongs to the communicator and not to the call, because after a
// communication error a message may still be on its way.
struct HelloBuffers {
  Hello known, heard;
};

// Ok if every rank came with the same signature and none is in trouble. Else an error that names two ranks
// and what they brought; the same on every rank.
template <Comm C>
Status agree(C& comm, const Signature& mine, HelloBuffers& buffers, std::uint64_t& messages_sent) {
  auto& [known, heard] = buffers;
  known = {};
  known.first_rank = comm.rank();
  known.first = mine;
  const int p = comm.size();
  for (int distance = 1; distance < p; distance *= 2) {
    bool fits = false;
    MQ_TRY(exchange_now(comm, (comm.rank() + distance) % p, (comm.rank() - distance + p) % p, kHelloTag,
                        std::as_bytes(std::span(&known, 1)), std::as_writable_bytes(std::span(&heard, 1)),
                        fits));
    ++messages_sent;
    if (!fits || heard.magic != kHelloMagic || heard.version != kWireVersion) {
      // Keep to the schedule, so that nobody waits; everyone learns of a rank in trouble.
      heard = known;
      heard.first_rank = (comm.rank() - distance + p) % p;
      heard.first.trouble = static_cast<std::uint16_t>(Code::bad_frame);
      heard.differs = 0;
    }
    known = merge(known, heard);
  }
  return verdict(known);
}

}  // namespace mq
