// Kronecker graphs, skewed like real graphs (R-MAT: Chakrabarti, Zhan, Faloutsos, SDM 2004), as Graph500
// makes them. Each edge descends through quadrants of the adjacency matrix, which are chosen with
// probabilities a, b, c and d = 1 - a - b - c. Labels are permuted, so that they do not show the degree. Edge
// i is a function of (seed, i).
#pragma once

#include <cstdint>

#include "bench/pagerank/graph.hpp"
#include "bench/permutation.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

struct RmatSpec {
  int scale = 16;  // log2 of the number of vertices
  std::uint64_t edge_factor = 16;
  double a = 0.57, b = 0.19, c = 0.19;
  std::uint64_t seed = 1;
};
Status check_rmat(const RmatSpec&);

class Rmat {
 public:
  explicit Rmat(const RmatSpec& spec);
  std::uint64_t vertices() const { return std::uint64_t{1} << spec_.scale; }
  std::uint64_t edges() const { return vertices() * spec_.edge_factor; }
  Edge edge(std::uint64_t i) const;
  // An equal part of the edges for each of `ranks` ranks. Together the parts have every edge once.
  EdgeList share(int rank, int ranks) const;

 private:
  RmatSpec spec_;
  Permutation label_;
};

}  // namespace mq::bench
