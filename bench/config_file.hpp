// mpiq-bench --config FILE: a sweep file, of which bench/sweeps/ has examples.
#pragma once

#include <CLI/CLI.hpp>

namespace mq::bench {

// Sections [allreduce] and [sparse] hold the long options of the subcommand of that name, which need not be
// on the command line; what is there overrides the file. Lists may be arrays. The section [launch] is for
// what starts launches (scripts/sweep). To be called before the subcommands are added, which must be
// configurable.
void add_config(CLI::App& app);

}  // namespace mq::bench
