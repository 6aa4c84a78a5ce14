// The allreduce of sparse vectors whose result is the union of the ranks' indices, on every rank.
//
// With P ranks of k entries each among n positions, w bytes an entry (values and position, positions.hpp),
// and u entries in the result, each rank sends
//
//   allgather           (P-1) k w           in log2 P steps; every rank merges all lists
//   split               (P-1)/P (k + u) w   in P + log2 P steps; rank r merges slice r of the indices
//   recursive_doubling  k w + ... + u w     in log2 P steps, each with the sum of twice as many ranks
//   dense               what the MPI library's allreduce of n elements sends
//
// Idea of split: Renggli et al., SparCML, SC 2019, section 5 (SSAR split allgather); here with positions in 1
// byte or 2 and not 4, and with each slice's switch to dense in the format of its positions. ssar and dsar
// are SparCML's own, see union_sparcml.hpp. Merged streams are forwarded unchanged by dissemination (Bruck et
// al., IEEE TPDS 1997), so that every rank decodes the same bytes.
//
// Sums are left folds in the order of the ranks, except with recursive_doubling (a tree over the ranks), ssar
// and dsar (the same left fold, with +0 for -0 where a slice became dense) and dense (the MPI library's).
//
// Every stream is a Header and a payload of the length that it announces, and both messages are sent whatever
// happens, the payload empty in trouble: so no rank waits for one that is in trouble, and each that depends
// on it finds the wrong length or the announcement. A header damaged on its way is noticed, and keeps nobody
// waiting either.
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
#include "sparse_allreduce/union_sparcml.hpp"

namespace mq::sparse {

// Reduces job's lists of all ranks into job.output. The job is the same on all ranks but for indices, values
// and where the output is. dense_allreduce(inout, elements) is the caller's reduction of whole vectors: a
// Status, of void* and std::uint64_t; called on all ranks or on none. Tags first_tag and first_tag + 1 are
// used. After an error of the communication (timed_out, mpi_failed) the workspace is the caller's to leak;
// after any error the output is undefined.
//
// call: made before the ranks rely on each other, for it takes the memory of messages.
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
      case Algorithm::ssar:
      case Algorithm::dsar: return union_as_sparcml(call, result);
    }
    return {};
  } catch (const std::bad_alloc&) {
    // The schedule is left, and messages may be under way.
    return status_of(Code::mpi_failed, [] { return "no memory for the messages of a sparse reduction"; });
  }
}

// The same with a call of its own: without memory even for that the other ranks wait until they time out.
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
