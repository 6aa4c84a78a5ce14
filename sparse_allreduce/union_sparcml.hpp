// SSAR and DSAR split allgather as published, for comparison. Renggli, Ashkboos, Aghagolzadeh, Alistarh,
// Hoefler: SparCML, SC 2019, section 5.
//
// Each rank sends every other rank the part of its list that is in the other's slice. A part is pairs of an
// index (4 bytes, or 8 if there are more than 2^32 positions) and values. The owner merges the parts, two
// streams at a time. ssar switches to a dense slice when the pairs of both streams might not be shorter; dsar
// uses a dense slice from the start. Then all slices go to all ranks. With P ranks of k entries each, u
// entries in the result and n positions, each rank sends (P-1)/P (k + u) (4 + values) bytes with ssar, and
// (P-1)/P (k (4 + values) + n values) bytes with dsar.
//
// Differences from the publication:
//
// - The header of a stream says whether it is dense. The paper concludes this from the stream's length, and
//   so takes a list of all indices for a dense vector.
// - Streams are added in the order of the ranks, not of arrival, so that results are reproducible.
// - If the result is a list, a bitmap comes with every dense slice.
#pragma once

#include "sparse_allreduce/sparcml.hpp"
#include "sparse_allreduce/union_lists.hpp"

namespace mq::sparse {

template <Comm C>
class Sparcml {
 public:
  Sparcml(UnionCall<C>& call, bool dense)
      : call_(call),
        dense_(dense),
        shape_{call.job.entry, call.job.size > std::uint64_t{1} << 32, !call.job.output.dense} {}

  Status run(UnionResult& result) {
    const std::size_t mark = call_.mark();
    MQ_TRY(reduce_slice());
    call_.release(mark);
    Header& header = *call_.take_header(kStepGather);
    header = {.call = call_.job.call, .step = kStepGather};
    std::span<const std::byte> payload;
    std::span<Frame> frames;
    call_.attempt([&]() -> Status {
      frames = call_.memory.template take<Frame>(static_cast<std::size_t>(call_.ranks));
      write_stream(sum_, call_.memory, header, payload);
      return check_message(payload.size());
    });
    MQ_TRY(call_.allgather(header, payload, frames, [&](const Header& said, int from) {
      return check_stream(shape_, said, call_.slice(from), from);
    }));
    call_.attempt([&]() -> Status { return deliver_all(frames, result); });
    return std::move(call_.local_error);
  }

 private:
  // Computes the sum of this rank's slice, sum_.
  Status reduce_slice() {
    const auto p = static_cast<std::size_t>(call_.ranks);
    const std::span<Header> headers = call_.take_headers(2 * p);
    for (Header& header : headers) header = {.call = call_.job.call, .step = kStepParts};
    std::span<Frame> out, theirs;
    SparcmlStream own;
    call_.attempt([&]() -> Status {
      out = call_.memory.template take<Frame>(p);
      theirs = call_.memory.template take<Frame>(p);
      for (std::size_t r = 0; r < p; ++r) {
        const Range range = call_.slice(static_cast<int>(r));
        const SparcmlStream part = make_stream(shape_, part_of(call_, range), range, call_.memory);
        out[r] = {&headers[r], {}};
        if (static_cast<int>(r) == call_.rank) {
          own = part;
        } else {
          write_stream(part, call_.memory, headers[r], out[r].payload);
          MQ_TRY(check_message(out[r].payload.size()));
        }
      }
      return {};
    });
    const Range slice = call_.slice(call_.rank);
    MQ_TRY(call_.alltoall(headers, out, theirs, [&](const Header& header, int from) {
      return check_stream(shape_, header, slice, from);
    }));
    call_.attempt([&]() -> Status {
      if (dense_) sum_ = make_dense(shape_, {}, slice, call_.memory);
      for (std::size_t r = 0; r < p; ++r) {
        const int from = static_cast<int>(r);
        SparcmlStream next = own;
        if (from != call_.rank)
          MQ_TRY(read_stream(shape_, *theirs[r].header, theirs[r].payload, slice, from, call_.memory, next));
        sum_ = r == 0 && !dense_ ? next : add_streams(shape_, sum_, next, slice, call_.memory);
      }
      return {};
    });
    return {};
  }
  Status deliver_all(std::span<const Frame> frames, UnionResult& result) {
    const UnionJob& job = call_.job;
    std::uint64_t count = 0, at = 0;
    for (const Frame& frame : frames) count += frame.header->counts[0];
    MQ_TRY(check_room(job.output, count));
    if (job.output.dense) deliver(job, {}, call_.whole(), 0);
    for (std::size_t r = 0; r < frames.size(); ++r) {
      const Range slice = call_.slice(static_cast<int>(r));
      SparcmlStream stream;
      MQ_TRY(read_stream(shape_, *frames[r].header, frames[r].payload, slice, static_cast<int>(r),
                         call_.memory, stream));
      if (job.output.dense)
        stream_to_slice(shape_, stream, slice, job.output.values + slice.low * job.entry.bytes());
      else
        stream_to_list(shape_, stream, slice, job.output.indices + at,
                       job.output.values + at * job.entry.bytes());
      at += stream.count;
    }
    result.count = job.output.dense ? job.size : count;
    return {};
  }

  UnionCall<C>& call_;
  bool dense_;
  SparcmlShape shape_;
  SparcmlStream sum_;
};

template <Comm C>
Status union_as_sparcml(UnionCall<C>& call, UnionResult& result) {
  return Sparcml<C>(call, result.algorithm == Algorithm::dsar).run(result);
}

}  // namespace mq::sparse
