// What main does in the programs with MPI, once the command line is parsed.
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <exception>

#include "bench/options.hpp"
#include "bench/program.h"

namespace mq::bench {

// Runs run(comm) between MPI_Init and MPI_Finalize, with a copy of MPI_COMM_WORLD, and returns its exit code.
// If one rank throws, because it has no memory or its GPU fails, all ranks end.
template <class Run>
int with_mpi(const char* program, int argc, char** argv, const Run& run) {
  MPI_Init(&argc, &argv);
  if (!mpiq_launched_by_own_mpi(program)) {
    MPI_Finalize();
    return kUsage;
  }
  MPI_Comm comm = MPI_COMM_NULL;
  PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int code = kPointFailed;
  try {
    code = run(comm);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", program, e.what());
    PMPI_Abort(MPI_COMM_WORLD, kPointFailed);
  }
  PMPI_Comm_free(&comm);
  mpiq_finalize();
  return code;
}

}  // namespace mq::bench
