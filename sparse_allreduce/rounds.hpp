// Small collectives by messages between ranks: a gather of equal blocks to all, and a verdict. Whatever a
// rank's trouble, it keeps to the schedule, so that nobody waits for it.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "sparse_allreduce/exchange.hpp"

namespace mq::sparse {

// A set of ranks that count themselves 0 ... size - 1: those from `first` on of the communicator.
struct Circle {
  int first = 0, size = 1, me = 0;
  int rank(int of) const { return first + (of % size + size) % size; }
};

// check() of a header that came as a message of `got` bytes.
inline Status check_received(const Header& header, std::size_t got, int from, std::uint64_t call,
                             std::uint32_t step) {
  return check(got == sizeof header ? header : Header{.magic = 0}, from, call, step);
}

// Block i of `blocks` becomes that of rank (me + i) % size; block 0 is there already. Bruck et al., 1997:
// ceil(log2 p) steps, each sends what is known and learns as much, (p - 1) blocks in all. `blocks` empty:
// this rank has no memory for it; all others find that a message is too short. `complete` says whether all
// came.
template <Comm C>
Status gather(Exchange<C>& exchange, const Circle& circle, int tag, std::span<std::byte> blocks,
              bool& complete) {
  const std::size_t p = static_cast<std::size_t>(circle.size), bytes = blocks.size() / p;
  complete = !blocks.empty();
  for (std::size_t known = 1; known < p; known *= 2) {
    const std::size_t n = std::min(known, p - known), from = known * bytes;
    const int distance = static_cast<int>(known);
    std::size_t got = 0;
    MQ_TRY(exchange.send(circle.rank(circle.me - distance), tag, blocks.first(complete ? n * bytes : 0)));
    MQ_TRY(exchange.receive(circle.rank(circle.me + distance), tag,
                            blocks.empty() ? blocks : blocks.subspan(from, n * bytes), &got));
    MQ_TRY(exchange.wait());
    complete = complete && got == n * bytes;
  }
  return {};
}

// An error if any rank of the circle is in trouble: its own for a rank that is, peer_failed for the others.
// Dissemination: ceil(log2 p) steps of a Header each, in `headers`, two of them. A message that is no verdict
// is trouble too; with `damage`, it is noted there and nobody hears of it, so that the others agree.
template <Comm C>
Status verdict(Exchange<C>& exchange, const Circle& circle, int tag, std::uint64_t call, std::uint32_t step,
               const Status& mine, std::span<Header> headers, Status* damage = nullptr) {
  Status all = mine;
  for (int distance = 1; distance < circle.size; distance *= 2) {
    Header &out = headers[0] = {}, &in = headers[1] = {};
    out.call = call;
    out.step = step;
    out.trouble = static_cast<std::uint16_t>(all.code());
    const int from = circle.rank(circle.me - distance);
    std::size_t got = 0;
    MQ_TRY(exchange.send(circle.rank(circle.me + distance), tag, std::as_bytes(std::span(&out, 1))));
    MQ_TRY(exchange.receive(from, tag, std::as_writable_bytes(std::span(&in, 1)), &got));
    MQ_TRY(exchange.wait());
    Status seen = check_received(in, got, from, call, step);
    Status& note = damage != nullptr && seen.code() == Code::bad_frame ? *damage : all;
    if (note.ok()) note = std::move(seen);
  }
  return all;
}

}  // namespace mq::sparse
