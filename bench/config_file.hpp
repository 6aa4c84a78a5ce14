// mpiq-bench --config FILE reads a sweep file. bench/sweeps/ has examples.
#pragma once

#include <CLI/CLI.hpp>

namespace mq::bench {

// The sections [allreduce] and [sparse] hold the long options of the subcommand of that name, which need not
// be on the command line. An option on the command line overrides the file. Lists may be arrays. The section
// [launch] is for the program that starts launches (scripts/sweep). Call this before the subcommands are
// added. They must be configurable.
void add_config(CLI::App& app);

}  // namespace mq::bench
