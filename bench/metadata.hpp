// What is stored about the machine, and where the ranks are. It stores a fixed list of variables and never
// the whole environment, which contains secrets.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu.hpp"
#include "bench/rows.hpp"

namespace mq::bench {

// Where the ranks of a communicator are: which of them share a node and a machine.
struct Topology {
  std::vector<RankRow> ranks;
  std::vector<NodeRow> nodes;
  std::vector<GpuRow> gpus;             // each GPU once, in the order of the ranks that use them
  std::vector<int> allowed_cpus;        // of each node: the CPUs that any of its ranks may run on
  std::vector<std::uint64_t> machine;   // of each rank; equal for ranks that share a kernel, and so a clock
  int nodes_of(int first_ranks) const;  // distinct nodes of ranks 0 .. first_ranks - 1
  int ranks_per_node(int first_ranks) const;  // the largest number
  bool oversubscribed(int first_ranks) const;
  bool one_clock(int first_ranks) const;
  bool is_first_of_machine(int rank) const;  // the lowest of its machine
  bool is_first_of_gpu(int rank) const;      // the lowest that uses its GPU; false if it uses none
};
// gpu: the GPU that this rank uses; null: none. Collective; the same on every rank.
Topology find_topology(MPI_Comm comm, const Gpu* gpu = nullptr);
int local_rank(MPI_Comm comm);  // among the ranks of its node. Collective

// Text with the names of files in place of absolute paths: "-O /home/me/run.h5" becomes "-O run.h5". Result
// files are published, and a path says who made them.
std::string without_folders(std::string_view text);
std::string command_line_text(int argc, const char* const* argv);  // without folders
std::vector<EnvRow> allowed_environment();                         // values without folders
std::string mpi_library();
std::string isa_name();

// The rank that the launcher gave this process, known before MPI_Init; 0 without a launcher.
int launcher_rank();

}  // namespace mq::bench
