// mpiq-bench parses the command line before MPI starts, so that --list, --help and usage errors need no
// launcher. Then it runs the sweep on MPI_COMM_WORLD.
#include <mpi.h>

#include <cstdlib>
#include <string>

#include "bench/console.hpp"
#include "bench/metadata.hpp"
#include "bench/options.hpp"
#include "bench/runner.hpp"
#include "bench/with_mpi.hpp"

int main(int argc, char** argv) {
  using namespace mq::bench;
  const CommandLine line = parse_command_line(argc, argv);
  if (!line.run) {
    if (launcher_rank() == 0) print_texts(line.out, line.err);
    return line.exit_code;
  }
  const std::string command_line = command_line_text(argc, argv);
  // The library must read the GPUs' clocks for the times that --phases prints, unless the user has set the
  // variable.
  if (line.options.phases) (void)setenv("MPIQ_CUDA_TIME", "on", 0);
  return with_mpi("mpiq-bench", argc, argv,
                  [&](MPI_Comm) { return run_sweep(line.options, command_line, MPI_COMM_WORLD); });
}
