// The command line of mpiq-pagerank. It is parsed before MPI starts, as in mpiq-bench.
#pragma once

#include <string>
#include <vector>

#include "bench/pagerank/rmat.hpp"
#include "bench/sparse_method.hpp"
#include "kernels/codec.hpp"

namespace mq::bench {

struct PagerankOptions {
  std::string file;  // "": an R-MAT graph
  RmatSpec rmat;
  std::vector<SparseMethod> methods;
  kernels::Element element = kernels::Element::f64;
  double damping = 0.85;
  int iterations = 20;   // at most
  double tolerance = 0;  // stop when the ranks change by less than this in an iteration; 0: never
  bool check = false;
  std::string csv, output;  // files for the table and for the ranks
};

struct PagerankCommandLine {
  bool run = false;  // false: print the texts and exit with the code
  int exit_code = 0;
  std::string out, err;
  PagerankOptions options;
};
PagerankCommandLine parse_pagerank(int argc, const char* const* argv);

}  // namespace mq::bench
