// mpiq-bench --config FILE reads a sweep file. bench/sweeps/ has examples.
#pragma once

#include "mpi_quant/run/option_parser.hpp"

namespace mq::bench {

// The sections [allreduce] and [sparse] hold the long options of the subcommand of that name, which need not
// be on the command line. An option on the command line overrides the file. Lists may be arrays. The section
// [launch] is for the program that starts launches (scripts/sweep). Call this before the subcommands are
// added.
void add_config(OptionParser& parser);

}  // namespace mq::bench
