// The union allreduces that send lists: allgather, split and recursive doubling; see union.hpp.
#pragma once

#include <algorithm>
#include <bit>

#include "sparse_allreduce/union_call.hpp"

namespace mq::sparse {

// The indices of a frame, decoded into `indices`, and its values where they are.
template <Comm C>
Status open_frame(UnionCall<C>& call, const Frame& frame, Range range, int from,
                  std::span<std::uint64_t> indices, List& list) {
  MQ_TRY(read_frame(*frame.header, frame.payload, call.job.entry, range, from, call.memory, indices));
  list = {indices, frame.payload.data()};
  return {};
}
template <Comm C>
Status open_frame(UnionCall<C>& call, const Frame& frame, Range range, int from, List& list) {
  return open_frame(call, frame, range, from,
                    call.memory.template take<std::uint64_t>(frame.header->counts[0]), list);
}

// The frame of a list in workspace memory; `wire` if its first bytes are the values, with room for the frame.
template <Comm C>
Status make_frame(UnionCall<C>& call, const List& list, Range range, Frame& frame,
                  std::byte* wire = nullptr) {
  const Entry& entry = call.job.entry;
  if (wire == nullptr)
    wire = call.memory.template take<std::byte>(frame_room(entry, list.indices.size())).data();
  write_frame(entry, list, range, call.memory, wire, *frame.header);
  frame.payload = {wire, frame.header->payload_bytes};
  return check_message(frame.payload.size());
}

// The part of this rank's list within a range.
template <Comm C>
List part_of(const UnionCall<C>& call, Range range) {
  const auto& all = call.job.list.indices;
  const auto begin = std::lower_bound(all.begin(), all.end(), range.low) - all.begin();
  const auto end = std::lower_bound(all.begin() + begin, all.end(), range.high) - all.begin();
  return {all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          call.job.list.values + static_cast<std::size_t>(begin) * call.job.entry.bytes()};
}

// Merges lists over the whole index space into the output.
template <Comm C>
Status merge_to_output(UnionCall<C>& call, std::span<const List> lists, UnionResult& result) {
  const UnionJob& job = call.job;
  const std::size_t room = merge_room(lists, 0, job.size);
  std::uint64_t* indices = job.output.indices;
  std::byte* values = job.output.values;
  if (job.output.dense || room > job.output.max) {
    indices = call.memory.template take<std::uint64_t>(room).data();
    values = call.memory.template take<std::byte>(room * job.entry.bytes()).data();
  }
  const std::size_t count = merge(job.entry, lists, 0, job.size, call.memory, indices, values);
  MQ_TRY(check_room(job.output, count));
  if (job.output.dense) fill_absent(job);
  deliver(job, {{indices, count}, values}, 0);
  result.count = job.output.dense ? job.size : count;
  return {};
}

template <Comm C>
Status union_by_allgather(UnionCall<C>& call, UnionResult& result) {
  const auto p = static_cast<std::size_t>(call.ranks);
  Frame own{call.take_header(kStepGather), {}};
  std::span<Frame> frames;
  call.attempt([&]() -> Status {
    frames = call.memory.template take<Frame>(p);
    if (p > 1) MQ_TRY(make_frame(call, call.job.list, call.whole(), own));
    return {};
  });
  if (p > 1)
    MQ_TRY(call.gather(*own.header, own.payload, frames, [&](const Header& header, int from) {
      return check_frame(call.job.entry, header, call.whole(), from);
    }));
  call.attempt([&]() -> Status {
    const std::span<List> lists = call.memory.template take<List>(p);
    for (std::size_t r = 0; r < p; ++r) {
      if (static_cast<int>(r) == call.rank)
        lists[r] = call.job.list;
      else
        MQ_TRY(open_frame(call, frames[r], call.whole(), static_cast<int>(r), lists[r]));
    }
    return merge_to_output(call, lists, result);
  });
  return std::move(call.trouble);
}

// Phase 1 of split: parts[r] is what rank r has of this rank's slice, decoded.
template <Comm C>
Status exchange_parts(UnionCall<C>& call, std::span<List>& parts) {
  const auto p = static_cast<std::size_t>(call.ranks);
  const std::span<Header> headers = call.take_headers(2 * p);
  std::span<Frame> out, theirs;
  const Range slice = call.slice(call.rank);
  for (Header& header : headers) header = {.call = call.job.call, .step = kStepParts};
  call.attempt([&]() -> Status {
    parts = call.memory.template take<List>(p);
    out = call.memory.template take<Frame>(p);
    theirs = call.memory.template take<Frame>(p);
    for (std::size_t r = 0; r < p; ++r) {
      const Range range = call.slice(static_cast<int>(r));
      out[r] = {&headers[r], {}};
      if (static_cast<int>(r) != call.rank) MQ_TRY(make_frame(call, part_of(call, range), range, out[r]));
    }
    return {};
  });
  MQ_TRY(call.swap_parts(headers, out, theirs, [&](const Header& header, int from) {
    return check_frame(call.job.entry, header, slice, from);
  }));
  call.attempt([&]() -> Status {
    for (std::size_t r = 0; r < p; ++r) {
      const int from = static_cast<int>(r);
      if (from == call.rank)
        parts[r] = part_of(call, slice);
      else
        MQ_TRY(open_frame(call, theirs[r], slice, from, parts[r]));
    }
    return {};
  });
  return {};
}

// The end of split: every rank's merged slice to the output.
template <Comm C>
Status deliver_slices(UnionCall<C>& call, std::span<const Frame> frames,
                      std::span<const std::uint64_t> own_indices, UnionResult& result) {
  const UnionOutput& output = call.job.output;
  std::uint64_t count = 0, at = 0;
  for (const Frame& frame : frames) count += frame.header->counts[0];
  MQ_TRY(check_room(output, count));
  if (output.dense) fill_absent(call.job);
  for (std::size_t r = 0; r < frames.size(); ++r) {
    const int from = static_cast<int>(r);
    const std::size_t n = frames[r].header->counts[0];
    List list{own_indices, frames[r].payload.data()};
    if (from != call.rank) {
      const std::span<std::uint64_t> indices =
          output.dense ? call.memory.template take<std::uint64_t>(n) : std::span(output.indices + at, n);
      MQ_TRY(open_frame(call, frames[r], call.slice(from), from, indices, list));
    }
    deliver(call.job, list, at);
    at += n;
  }
  result.count = output.dense ? call.job.size : count;
  return {};
}

template <Comm C>
Status union_by_split(UnionCall<C>& call, UnionResult& result) {
  const Entry& entry = call.job.entry;
  const auto p = static_cast<std::size_t>(call.ranks);
  const std::size_t mark = call.mark();
  std::span<List> parts;
  MQ_TRY(exchange_parts(call, parts));
  call.release(mark);
  Frame own{call.take_header(kStepGather), {}};
  *own.header = {.call = call.job.call, .step = kStepGather};
  std::span<Frame> frames;
  std::span<const std::uint64_t> own_indices;
  call.attempt([&]() -> Status {
    const Range slice = call.slice(call.rank);
    frames = call.memory.template take<Frame>(p);
    const std::size_t room = merge_room(parts, slice.low, slice.high);
    std::byte* const wire = call.memory.template take<std::byte>(frame_room(entry, room)).data();
    const auto indices = call.memory.template take<std::uint64_t>(room);
    const std::size_t n = merge(entry, parts, slice.low, slice.high, call.memory, indices.data(), wire);
    own_indices = indices.first(n);
    return make_frame(call, {own_indices, wire}, slice, own, wire);
  });
  MQ_TRY(call.gather(*own.header, own.payload, frames, [&](const Header& header, int from) {
    return check_frame(entry, header, call.slice(from), from);
  }));
  call.attempt([&]() -> Status { return deliver_slices(call, frames, own_indices, result); });
  return std::move(call.trouble);
}

// Recursive doubling over the greatest power of two of ranks: the first 2 e ranks, where e are too many, form
// pairs, of which the second sends its list to the first and later gets the result. Partners merge the lower
// ranks' sum with the higher ranks', so they get the same bits.
template <Comm C>
class Doubling {
 public:
  explicit Doubling(UnionCall<C>& call) : call_(call), sum_(call.job.list) {}

  Status run(UnionResult& result) {
    const int whole = static_cast<int>(std::bit_floor(static_cast<unsigned>(call_.ranks)));
    const int extra = call_.ranks - whole;
    const auto rank_of = [&](int id) { return id < extra ? 2 * id : id + extra; };
    const bool paired = call_.rank < 2 * extra, second = paired && call_.rank % 2 == 1;
    if (paired) MQ_TRY(step(kStepDoubling, second ? call_.rank - 1 : -1, second ? -1 : call_.rank + 1));
    if (!second) {
      const int id = paired ? call_.rank / 2 : call_.rank - extra;
      std::uint32_t number = kStepDoubling;
      for (int distance = 1; distance < whole; distance *= 2) {
        const int peer = rank_of(id ^ distance);
        MQ_TRY(step(++number, peer, peer));
      }
    }
    if (paired) {
      if (second) sum_ = {};
      MQ_TRY(step(kStepDoubling - 1, second ? -1 : call_.rank + 1, second ? call_.rank - 1 : -1));
    }
    call_.attempt([&]() -> Status { return merge_to_output(call_, std::span(&sum_, 1), result); });
    return std::move(call_.trouble);
  }

 private:
  // Sends the sum to rank `to` and adds that of rank `from`; -1: nobody.
  Status step(std::uint32_t number, int to, int from) {
    const std::size_t mark = call_.mark();
    Frame out{call_.take_header(number), {}}, in{call_.take_header(number), {}};
    *out.header = {.call = call_.job.call, .step = number};
    call_.attempt(
        [&]() -> Status { return to >= 0 ? make_frame(call_, sum_, call_.whole(), out) : Status{}; });
    MQ_TRY(call_.exchange(to, out, from, in, call_.whole()));
    if (from >= 0) call_.attempt([&]() -> Status { return add(in, from); });
    call_.release(mark);
    return {};
  }
  Status add(const Frame& in, int from) {
    List lists[2];
    const std::size_t theirs = from < call_.rank ? 0 : 1;
    lists[1 - theirs] = sum_;
    MQ_TRY(open_frame(call_, in, call_.whole(), from, lists[theirs]));
    const std::size_t room = merge_room(lists, 0, call_.job.size);
    const auto indices = call_.memory.template take<std::uint64_t>(room);
    const auto values = call_.memory.template take<std::byte>(room * call_.job.entry.bytes());
    const std::size_t n =
        merge(call_.job.entry, lists, 0, call_.job.size, call_.memory, indices.data(), values.data());
    sum_ = {indices.first(n), values.data()};
    return {};
  }

  UnionCall<C>& call_;
  List sum_;  // of the ranks so far
};

template <Comm C>
Status union_by_doubling(UnionCall<C>& call, UnionResult& result) {
  return Doubling<C>(call).run(result);
}

}  // namespace mq::sparse
