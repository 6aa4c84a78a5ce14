// Directed graphs as lists of edges, and a rank's share of one. Free of MPI.
#pragma once

#include <cstdint>
#include <vector>

namespace mq::bench {

struct Edge {
  std::int64_t source, target;
  bool operator==(const Edge&) const = default;
};

struct EdgeList {
  std::uint64_t vertices = 0;    // 0 .. vertices - 1
  std::vector<Edge> edges;       // of this rank; repeated ones count as often as they stand
  std::uint64_t first_name = 0;  // what the file calls vertex 0: Matrix Market counts from 1
};

// A rank's edges, for multiplication of a vector with them: every edge belongs to one rank, and a vertex to
// as many as have an edge of it (Zhao and Canny: Kylix, ICPP 2014, section 2).
struct LocalGraph {
  std::uint64_t vertices = 0;
  std::vector<std::int64_t> sources, targets;  // with edges here; strictly ascending
  std::vector<double> source_edges;            // number of edges here, for each source
  // Edges to targets[i] come from sources[edge_source[e]], begin[i] <= e < begin[i + 1].
  std::vector<std::size_t> begin;
  std::vector<std::uint32_t> edge_source;

  // sums[i] = sum of x over the sources of the edges to targets[i], in double and rounded once.
  template <class T>
  void multiply(const std::vector<double>& x, std::vector<T>& sums) const {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      double sum = 0;
      for (std::size_t e = begin[i]; e < begin[i + 1]; ++e) sum += x[edge_source[e]];
      sums[i] = static_cast<T>(sum);
    }
  }
};
LocalGraph make_local(EdgeList list);

// PageRank of the whole graph on one processor, in double. Vertices without outgoing edges give their rank to
// all vertices alike.
std::vector<double> pagerank(const EdgeList& graph, double damping, int iterations);

}  // namespace mq::bench
