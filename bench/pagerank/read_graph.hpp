// Reads graphs from files, plain or compressed with gzip. An edge list has a source and a target per line,
// separated by blanks; further columns are ignored, and so are lines that begin with # or %. In a Matrix
// Market coordinate file an entry in row i and column j is an edge from i to j; values are ignored.
#pragma once

#include <string>

#include "bench/pagerank/graph.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// The edges of one of `ranks` ranks. A hash of an edge's place in the file decides its rank, so that neither
// the order nor the popularity of vertices makes shares unequal. Errors name the file and the line. The
// vertices of an edge list are 0 to the largest number in it; those of a Matrix Market file are its rows.
Result<EdgeList> read_graph(const std::string& path, int rank, int ranks);

}  // namespace mq::bench
