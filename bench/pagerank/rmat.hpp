// Kronecker graphs with the skew of real ones (R-MAT: Chakrabarti, Zhan, Faloutsos, SDM 2004), as Graph500
// makes them: each edge descends through quadrants of the adjacency matrix, chosen with probabilities a, b, c
// and d = 1 - a - b - c, and labels are permuted so that they do not tell the degree. Edge i is a function of
// (seed, i).
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
  // An equal part of the edges for each of `ranks`; together all of them, once.
  EdgeList share(int rank, int ranks) const;

 private:
  RmatSpec spec_;
  Permutation label_;
};

}  // namespace mq::bench
