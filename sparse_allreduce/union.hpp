// The allreduce of sparse vectors whose result is the union of the ranks' indices, on every rank.
//
// With P ranks of k entries each among n positions, w bytes per entry (value and position, positions.hpp),
// and u entries in the result, each rank sends
//
//   allgather           (P-1) k w           in log2 P steps; every rank merges all lists
//   split               (P-1)/P (k + u) w   in P + log2 P steps; rank r merges slice r of the indices
//   recursive_doubling  k w + ... + u w     in log2 P steps; each step doubles the number of ranks in the sum
//   dense               what the MPI library's allreduce of n elements sends
//
// split follows SSAR split allgather (Renggli et al., SparCML, SC 2019, section 5). Here positions take 1 or
// 2 bytes instead of 4, and each slice switches to dense by the format of its positions. Merged streams are
// forwarded unchanged by dissemination (Bruck et al., IEEE TPDS 1997), so that every rank decodes the same
// bytes.
//
// Sums are left folds in the order of the ranks, with two exceptions: recursive_doubling sums in a tree over
// the ranks; dense sums in the MPI library's order.
//
// Every stream is a Header, then a payload of the length that the header announces: two messages, or, where
// an allgather knows that all streams are short, one (short_stream_room). A rank with a local error follows
// the same schedule, with headers that announce the error and empty payloads. So no rank waits for it, and a
// rank that depends on it sees the announced error or the wrong length. A damaged header is detected, and no
// rank waits because of it either.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>

#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/frame.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/union_dense.hpp"
#include "sparse_allreduce/union_job.hpp"
#include "sparse_allreduce/union_lists.hpp"

namespace mq::sparse {

// Reduces the lists of all ranks into job.output. The job is equal on all ranks, except for indices, values
// and the address of the output. dense_allreduce(inout, elements) is the caller's reduction of whole vectors.
// It takes a void* and a std::uint64_t and returns a Status; it is called on all ranks or on none. Uses the
// tags first_tag and first_tag + 1. After an error of the communication (timed_out, mpi_failed), the caller
// must leak the workspace. After any error, the output is undefined.
//
// Make `call` before the ranks rely on each other, because its constructor takes the memory for messages.
template <Comm C, class Dense>
Status union_allreduce(UnionCall<C>& call, const Dense& dense_allreduce, UnionResult& result) noexcept {
  const UnionJob& job = call.job;
  try {
    result.algorithm = job.algorithm;
    if (job.algorithm == Algorithm::automatic)
      result.algorithm =
          choose({job.size, job.entry, job.most_entries, call.ranks, job.output.dense}, job.network);
    switch (result.algorithm) {
      case Algorithm::automatic:
      case Algorithm::allgather: return union_by_allgather(call, result);
      case Algorithm::split: return union_by_split(call, result);
      case Algorithm::recursive_doubling: return union_by_doubling(call, result);
      case Algorithm::dense: return union_by_dense(call, dense_allreduce, result);
    }
    return {};
  } catch (const std::bad_alloc&) {
    // This rank no longer follows the schedule, and messages may be in flight.
    return status_of(Code::mpi_failed, [] { return "no memory for the messages of a sparse reduction"; });
  }
}

// The same with a UnionCall of its own. If there is no memory even for that, the other ranks wait until they
// time out.
template <Comm C, class Dense>
Status union_allreduce(C& comm, const UnionJob& job, Workspace& memory, Traffic& traffic,
                       const Dense& dense_allreduce, UnionResult& result) noexcept {
  try {
    UnionCall<C> call(comm, job, memory, traffic);
    return union_allreduce(call, dense_allreduce, result);
  } catch (const std::bad_alloc&) {
    return status_of(Code::mpi_failed, [] { return "no memory for a sparse reduction"; });
  }
}

}  // namespace mq::sparse
