// The union allreduces that send lists: allgather, split and recursive doubling; see union.hpp.
#pragma once

#include <algorithm>
#include <bit>

#include "sparse_allreduce/union_call.hpp"

namespace mq::sparse {

// Decodes the indices of a frame into `indices`. The values stay where they are.
template <Comm C>
Status open_frame(UnionCall<C>& call, const Frame& frame, Range range, int from,
                  std::span<std::uint64_t> indices, List& list) {
  MQ_TRY(read_frame(*frame.header, frame.payload, call.job.entry, range, from, call.memory, indices));
  list = {indices, frame.payload.data()};
  call.worked(Work::decode, indices.size());
  return {};
}
template <Comm C>
Status open_frame(UnionCall<C>& call, const Frame& frame, Range range, int from, List& list) {
  return open_frame(call, frame, range, from,
                    call.memory.template take<std::uint64_t>(frame.header->counts[0]), list);
}

// Makes a frame an input of a merge. The merge decodes the positions itself if possible.
template <Comm C>
Status operand_of(UnionCall<C>& call, const Frame& frame, Range range, int from, Operand& operand) {
  const std::size_t count = frame.header->counts[0];
  if (frame.header->format == static_cast<std::uint32_t>(FrameFormat::list)) {
    operand = {count, positions_of(*frame.header, frame.payload, call.job.entry), frame.payload.data()};
    call.worked(Work::decode, count);
    return {};
  }
  List list;
  MQ_TRY(open_frame(call, frame, range, from, list));
  operand = list;
  return {};
}

// Makes the frame of a list in workspace memory. If `wire` is given, the values are already at its start, and
// it has room for the frame.
template <Comm C>
Status make_frame(UnionCall<C>& call, const List& list, Range range, Frame& frame,
                  std::byte* wire = nullptr) {
  const Entry& entry = call.job.entry;
  if (wire == nullptr)
    wire = call.memory.template take<std::byte>(frame_room(entry, list.indices.size())).data();
  write_frame(entry, list, range, call.memory, wire, *frame.header);
  call.worked(Work::encode, list.indices.size());
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

// It works as union.cpp's model says: a fold of pairs of lists, or a pass over segments.
template <Comm C>
Status merge_operands(UnionCall<C>& call, std::span<const Operand> operands, Range range,
                      std::uint64_t* indices, std::byte* values, std::size_t& count) {
  if (merge(call.job.entry, operands, range.low, range.high, call.memory, indices, values, count)) {
    std::size_t given = 0;
    for (const Operand& operand : operands) given += operand.count;
    call.worked(Work::merge,
                std::min((std::max<std::size_t>(operands.size(), 2) - 1) * count, given + count));
    return {};
  }
  return status_of(Code::bad_frame, [] { return "a rank sent a malformed sparse vector"; });
}

// Merges lists over the whole index space into the output.
template <Comm C>
Status merge_to_output(UnionCall<C>& call, std::span<const Operand> lists, UnionResult& result) {
  const UnionJob& job = call.job;
  const std::size_t room = merge_room(lists, 0, job.size);
  std::uint64_t* indices = job.output.indices;
  std::byte* values = job.output.values;
  if (job.output.dense || room > job.output.max) {
    indices = call.memory.template take<std::uint64_t>(room).data();
    values = call.memory.template take<std::byte>(room * job.entry.bytes()).data();
  }
  std::size_t count = 0;
  MQ_TRY(merge_operands(call, lists, call.whole(), indices, values, count));
  MQ_TRY(check_room(job.output, count));
  deliver(job, {{indices, count}, values}, call.whole(), 0);
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
  const auto check_whole = [&](const Header& header, int from) {
    return check_frame(call.job.entry, header, call.whole(), from);
  };
  const std::size_t room = short_stream_room(call.job.entry, call.job.most_entries, call.ranks);
  if (p > 1 && room > 0)
    MQ_TRY(call.allgather_short(*own.header, own.payload, frames, room, check_whole));
  else if (p > 1)
    MQ_TRY(call.allgather(*own.header, own.payload, frames, check_whole));
  call.attempt([&]() -> Status {
    const std::span<Operand> lists = call.memory.template take<Operand>(p);
    if (p == 1) lists[0] = call.job.list;
    for (std::size_t r = 0; r < p && p > 1; ++r) {
      MQ_TRY(operand_of(call, frames[r], call.whole(), static_cast<int>(r), lists[r]));
      if (static_cast<int>(r) == call.rank) lists[r].indices = call.job.list.indices;
    }
    return merge_to_output(call, lists, result);
  });
  return std::move(call.local_error);
}

// First phase of split (reduce-scatter): parts[r] becomes rank r's part of this rank's slice.
template <Comm C>
Status exchange_parts(UnionCall<C>& call, std::span<Operand>& parts) {
  const auto p = static_cast<std::size_t>(call.ranks);
  const std::span<Header> headers = call.take_headers(2 * p);
  std::span<Frame> out, theirs;
  const Range slice = call.slice(call.rank);
  for (Header& header : headers) header = {.call = call.job.call, .step = kStepParts};
  call.attempt([&]() -> Status {
    parts = call.memory.template take<Operand>(p);
    out = call.memory.template take<Frame>(p);
    theirs = call.memory.template take<Frame>(p);
    for (std::size_t r = 0; r < p; ++r) {
      const Range range = call.slice(static_cast<int>(r));
      out[r] = {&headers[r], {}};
      if (static_cast<int>(r) != call.rank) MQ_TRY(make_frame(call, part_of(call, range), range, out[r]));
    }
    return {};
  });
  MQ_TRY(call.alltoall(headers, out, theirs, [&](const Header& header, int from) {
    return check_frame(call.job.entry, header, slice, from);
  }));
  call.attempt([&]() -> Status {
    for (std::size_t r = 0; r < p; ++r) {
      const int from = static_cast<int>(r);
      if (from == call.rank)
        parts[r] = part_of(call, slice);
      else
        MQ_TRY(operand_of(call, theirs[r], slice, from, parts[r]));
    }
    return {};
  });
  return {};
}

// Last phase of split: writes every rank's merged slice to the output.
template <Comm C>
Status deliver_slices(UnionCall<C>& call, std::span<const Frame> frames,
                      std::span<const std::uint64_t> own_indices, UnionResult& result) {
  const UnionOutput& output = call.job.output;
  std::uint64_t count = 0, at = 0;
  for (const Frame& frame : frames) count += frame.header->counts[0];
  MQ_TRY(check_room(output, count));
  for (std::size_t r = 0; r < frames.size(); ++r) {
    const int from = static_cast<int>(r);
    const std::size_t n = frames[r].header->counts[0];
    List list{own_indices, frames[r].payload.data()};
    if (from != call.rank) {
      const std::span<std::uint64_t> indices =
          output.dense ? call.memory.template take<std::uint64_t>(n) : std::span(output.indices + at, n);
      MQ_TRY(open_frame(call, frames[r], call.slice(from), from, indices, list));
    }
    deliver(call.job, list, call.slice(from), at);
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
  std::span<Operand> parts;
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
    std::size_t n = 0;
    MQ_TRY(merge_operands(call, parts, slice, indices.data(), wire, n));
    own_indices = indices.first(n);
    return make_frame(call, {own_indices, wire}, slice, own, wire);
  });
  MQ_TRY(call.allgather(*own.header, own.payload, frames, [&](const Header& header, int from) {
    return check_frame(entry, header, call.slice(from), from);
  }));
  call.attempt([&]() -> Status { return deliver_slices(call, frames, own_indices, result); });
  return std::move(call.local_error);
}

// Recursive doubling over the largest power of two of ranks. If e ranks are too many, the first 2 e ranks
// form pairs: the second of a pair sends its list to the first, and receives the result at the end. Both
// partners merge the lower ranks' sum with the higher ranks' sum, in this order, so they get the same bits.
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
    call_.attempt([&]() -> Status {
      const Operand sum(sum_);
      return merge_to_output(call_, std::span(&sum, 1), result);
    });
    return std::move(call_.local_error);
  }

 private:
  // Sends the sum to rank `to` and adds the sum of rank `from`; -1 means no rank.
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
    Operand lists[2];
    const std::size_t theirs = from < call_.rank ? 0 : 1;
    lists[1 - theirs] = sum_;
    MQ_TRY(operand_of(call_, in, call_.whole(), from, lists[theirs]));
    const std::size_t room = merge_room(lists, 0, call_.job.size);
    const auto indices = call_.memory.template take<std::uint64_t>(room);
    const auto values = call_.memory.template take<std::byte>(room * call_.job.entry.bytes());
    std::size_t n = 0;
    MQ_TRY(merge_operands(call_, lists, call_.whole(), indices.data(), values.data(), n));
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
