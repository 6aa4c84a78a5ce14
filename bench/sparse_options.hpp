// Options of sweeps over sparse vectors, of mpiq-bench and of mpiq-simulate.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "bench/options.hpp"

namespace mq::bench {

// As the user writes them.
struct SparseWords {
  std::string density = "0.01", distribution = "uniform", stride = "1", in = "own", lists = "same";
};
void add_sparse_options(CLI::App& app, SparseWords& words);
Status take_sparse(const SparseWords& words, SparseOptions& options);

}  // namespace mq::bench
