// Directed graphs as lists of edges, from a file or made at random, and a rank's share of one. Uses no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

struct Edge {
  std::int64_t source, target;
  bool operator==(const Edge&) const = default;
};

struct EdgeList {
  std::uint64_t vertices = 0;  // 0 .. vertices - 1
  std::vector<Edge> edges;     // of this rank; an edge that is listed twice counts twice
};

// Reads an edge list, plain or compressed with gzip: a source and a target per line, separated by blanks;
// further columns are ignored, and so are lines that begin with # or %. The vertices are 0 to the largest
// number in it. A hash of an edge's place in the file decides its rank, so that neither the order nor the
// popularity of vertices makes shares unequal. Errors name the line.
Result<EdgeList> read_graph(const std::string& path, int rank, int ranks);

// Kronecker graphs, skewed like real graphs (R-MAT: Chakrabarti, Zhan, Faloutsos, SDM 2004), with the
// probabilities of Graph500. Each edge descends through quadrants of the adjacency matrix. Labels are
// permuted, so that they do not show the degree.
struct RmatSpec {
  int scale = 16;  // log2 of the number of vertices
  std::uint64_t edge_factor = 16;
  std::uint64_t seed = 1;
};
// An equal part of the edges for each of `ranks` ranks. Together the parts have every edge once: edge i is a
// function of (seed, i).
EdgeList rmat_share(const RmatSpec& spec, int rank, int ranks);

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
