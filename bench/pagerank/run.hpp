// PageRank over MPI, with one method of reduction.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "bench/pagerank/graph.hpp"
#include "bench/pagerank/options.hpp"
#include "bench/sparse_call.hpp"

namespace mq::bench {

// The part of a graph that does not depend on the method. Collective over comm.
class SharedGraph {
 public:
  // Throws nothing. After an error of MPI, all ranks have the same error.
  SharedGraph(LocalGraph graph, MPI_Comm comm);
  int error() const { return error_; }  // an MPI error code
  const LocalGraph& local() const { return local_; }
  MPI_Comm comm() const { return comm_; }
  double degree(std::size_t source) const { return degree_[source]; }  // in the whole graph
  // A vertex may be a source on several ranks. In sums over vertices only one of them counts it.
  bool mine(std::size_t source) const { return mine_[source]; }
  std::uint64_t most_targets() const { return most_targets_; }  // a bound of the union, equal on all ranks

 private:
  LocalGraph local_;
  MPI_Comm comm_;
  std::vector<double> degree_;
  std::vector<bool> mine_;
  std::uint64_t most_targets_ = 0;
  int error_ = MPI_SUCCESS;
};

struct PagerankResult {
  int error = MPI_SUCCESS;
  int iterations = 0;
  double configure_s = 0;
  // One time for each iteration, of the slowest rank: the whole iteration, and the reduction alone.
  std::vector<double> iteration_s, reduce_s;
  std::int64_t sent_bytes_max = -1, sent_bytes_sum = -1;  // per iteration; -1: not counted
  std::vector<double> source_ranks, target_ranks;         // at the local sources and targets
  double other_rank = 0;                                  // of a vertex without edges
};

// Collective. target_ranks is filled only with o.check or o.output. If memory is too small, the error is
// MPI_ERR_NO_MEM on all ranks.
PagerankResult run_pagerank(const SharedGraph& graph, const PagerankOptions& o, const SparseMethod& method);

// Rank 0 gets the ranks of all vertices; the other ranks get nothing. Collective. Throws std::bad_alloc on
// rank 0, before anything is sent.
std::vector<double> gather_ranks(const SharedGraph& graph, const PagerankResult& result);

// The largest relative difference from the reference on any rank. Rank 0 has the reference. Collective.
double largest_difference(const SharedGraph& graph, const PagerankResult& result,
                          const std::vector<double>& reference);

}  // namespace mq::bench
