// PageRank over MPI, with one method of reduction.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "bench/pagerank/graph.hpp"
#include "bench/pagerank/options.hpp"
#include "bench/sparse_call.hpp"

namespace mq::bench {

// What does not depend on the method. Collective over comm.
class SharedGraph {
 public:
  // Throws nothing; after an error of MPI the same error is on all ranks.
  SharedGraph(LocalGraph graph, MPI_Comm comm);
  int error() const { return error_; }  // an MPI error code
  const LocalGraph& local() const { return local_; }
  MPI_Comm comm() const { return comm_; }
  double degree(std::size_t source) const { return degree_[source]; }  // of the whole graph
  // A vertex may be a source on several ranks; one of them speaks for it in sums over vertices.
  bool mine(std::size_t source) const { return mine_[source]; }
  std::uint64_t most_targets() const { return most_targets_; }  // bound of the union, equal on all ranks

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
  // One for each iteration, the slowest rank's: all of it, and the reduction alone.
  std::vector<double> iteration_s, reduce_s;
  std::int64_t sent_bytes_max = -1, sent_bytes_sum = -1;  // an iteration; -1: not counted
  std::vector<double> source_ranks, target_ranks;         // at the local sources and targets
  double other_rank = 0;                                  // of a vertex without edges
};

// Collective. target_ranks only with o.check or o.output. Too little memory is MPI_ERR_NO_MEM on all ranks.
PagerankResult run_pagerank(const SharedGraph& graph, const PagerankOptions& o, const SparseMethod& method);

// Rank 0 gets the ranks of all vertices; the others get none. Collective; throws std::bad_alloc on rank 0,
// before anything is sent.
std::vector<double> gather_ranks(const SharedGraph& graph, const PagerankResult& result);

// The largest relative difference on any rank from the reference, which is rank 0's. Collective.
double largest_difference(const SharedGraph& graph, const PagerankResult& result,
                          const std::vector<double>& reference);

}  // namespace mq::bench
