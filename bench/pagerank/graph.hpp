// Directed graphs as lists of edges, and a rank's share of one. Uses no MPI.
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
  std::vector<Edge> edges;       // of this rank; an edge that is listed twice counts twice
  std::uint64_t first_name = 0;  // the number of vertex 0 in the file, because Matrix Market counts from 1
};

// A rank's edges, stored so that a vector can be multiplied with them. Every edge belongs to one rank. A
// vertex belongs to every rank that has an edge of it (Zhao and Canny: Kylix, ICPP 2014, section 2).
struct LocalGraph {
  std::uint64_t vertices = 0;
  std::vector<std::int64_t> sources, targets;  // vertices with edges here; strictly ascending
  std::vector<double> source_edges;            // the number of edges here, for each source
  // The edges to targets[i] come from sources[edge_source[e]], begin[i] <= e < begin[i + 1].
  std::vector<std::size_t> begin;
  std::vector<std::uint32_t> edge_source;

  // sums[i] = the sum of x over the sources of the edges to targets[i], computed in double and rounded once.
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

// PageRank of the whole graph on one processor, in double. A vertex without outgoing edges gives its rank to
// all vertices in equal parts.
std::vector<double> pagerank(const EdgeList& graph, double damping, int iterations);

}  // namespace mq::bench
