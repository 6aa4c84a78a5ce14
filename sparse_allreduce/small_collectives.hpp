// Small collectives made of messages between ranks: an allgather of blocks of equal size, and an exchange of
// error codes. A rank with a local error follows the same schedule, so that no other rank waits for it.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "sparse_allreduce/exchange.hpp"

namespace mq::sparse {

// A contiguous range of ranks of the communicator, starting at `first` and numbered 0 ... size - 1.
struct RankRange {
  int first = 0, size = 1, me = 0;
  int rank(int of) const { return first + (of % size + size) % size; }
};

// Like check(), for a header received in a message of `got` bytes.
inline Status check_received(const Header& header, std::size_t got, int from, std::uint64_t call,
                             std::uint32_t step) {
  return check(got == sizeof header ? header : Header{.magic = 0}, from, call, step);
}

// Allgather of blocks by dissemination (Bruck et al., 1997). On entry block 0 of `blocks` is this rank's own;
// on return block i comes from rank (me + i) % size. It takes ceil(log2 p) steps; each step doubles the
// number of known blocks, and p - 1 blocks are received in all. If this rank has no memory for the blocks, it
// passes an empty span; the other ranks then receive messages that are too short. `complete` is true if all
// blocks arrived.
template <Comm C>
Status allgather(Exchange<C>& exchange, const RankRange& ranks, int tag, std::span<std::byte> blocks,
                 bool& complete) {
  const std::size_t p = static_cast<std::size_t>(ranks.size), bytes = blocks.size() / p;
  complete = !blocks.empty();
  for (std::size_t known = 1; known < p; known *= 2) {
    const std::size_t n = std::min(known, p - known), from = known * bytes;
    const int distance = static_cast<int>(known);
    std::size_t got = 0;
    MQ_TRY(exchange.send(ranks.rank(ranks.me - distance), tag, blocks.first(complete ? n * bytes : 0)));
    MQ_TRY(exchange.receive(ranks.rank(ranks.me + distance), tag,
                            blocks.empty() ? blocks : blocks.subspan(from, n * bytes), &got));
    MQ_TRY(exchange.wait());
    complete = complete && got == n * bytes;
  }
  return {};
}

// Tells all ranks of the range whether any of them has a local error. A rank with an error gets its own error
// back, the others get peer_failed. Dissemination: ceil(log2 p) steps, each sends and receives one Header;
// `headers` has two elements.
//
// A malformed message also counts as an error. If `damage` is given, the malformed message is recorded there
// and not passed on, so that the other ranks still get the same result.
template <Comm C>
Status common_status(Exchange<C>& exchange, const RankRange& ranks, int tag, std::uint64_t call,
                     std::uint32_t step, const Status& mine, std::span<Header> headers,
                     Status* damage = nullptr) {
  Status all = mine;
  for (int distance = 1; distance < ranks.size; distance *= 2) {
    Header &out = headers[0] = {}, &in = headers[1] = {};
    out.call = call;
    out.step = step;
    out.error_code = static_cast<std::uint16_t>(all.code());
    const int from = ranks.rank(ranks.me - distance);
    std::size_t got = 0;
    MQ_TRY(exchange.send(ranks.rank(ranks.me + distance), tag, std::as_bytes(std::span(&out, 1))));
    MQ_TRY(exchange.receive(from, tag, std::as_writable_bytes(std::span(&in, 1)), &got));
    MQ_TRY(exchange.wait());
    Status seen = check_received(in, got, from, call, step);
    Status& note = damage != nullptr && seen.code() == Code::bad_frame ? *damage : all;
    if (note.ok()) note = std::move(seen);
  }
  return all;
}

}  // namespace mq::sparse
