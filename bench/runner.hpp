// The sweep: connects points, measurement and result file.
#pragma once

#include <mpi.h>

#include <string>

#include "bench/options.hpp"

namespace mq::bench {

// Collective over comm; returns the same exit code on every rank. Only rank 0 prints and writes.
int run_sweep(const Options& options, const std::string& command_line, MPI_Comm comm);

}  // namespace mq::bench
