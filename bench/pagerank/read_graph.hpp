// Graphs from files: edge lists (a source and a target a line, separated by blanks; further columns are
// ignored, as are lines that begin with # or %) and Matrix Market coordinate files (an entry in row i and
// column j is an edge from i to j; values are ignored). Compressed with gzip too.
#pragma once

#include <string>

#include "bench/pagerank/graph.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// The edges of one of `ranks`, dealt by a hash of their place in the file, so that neither order nor
// popularity of vertices makes shares unequal. Errors name the file and the line. Vertices of an edge list
// are 0 to the largest number in it, of a Matrix Market file its rows.
Result<EdgeList> read_graph(const std::string& path, int rank, int ranks);

}  // namespace mq::bench
