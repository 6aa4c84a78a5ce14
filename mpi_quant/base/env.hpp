// Every environment variable of the library, read once. Separate because nothing else may call getenv.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

inline constexpr int kMaxThreads = 64;

// What the preload library does with the calls of a program.
enum class Mode {
  on,       // what the policy says
  explain,  // nothing: reports what the policy would do
  advise,   // nothing: reports what each method would do
};
inline constexpr std::array<std::string_view, 3> kModes{"on", "explain", "advise"};

struct Env {
  // MPIQ_POLICY: rules for communicators whose policy was not set by MPIQ_Comm_set_policy. Rank 0's counts.
  // "" for none. Or else MPIQ_POLICY_FILE: a file of rules, see rules_of_file.
  std::string policy;
  std::string policy_file;  // that policy was read from; "" if from MPIQ_POLICY
  // MPIQ_MODE: on, explain or advise, for MPI_Allreduce of unmodified programs. Default on.
  Mode mode = Mode::on;
  // MPIQ_REPORT: file for a report of what became of the program's calls, written by rank 0 when MPI is
  // finalized: JSON if the name ends in .json, else text; "-": text on stderr. All ranks must have it.
  // Default: none; "-" if MPIQ_MODE is explain or advise.
  std::string report;
  // MPIQ_ADVISE_ERROR: the largest relative L2 error of one call that advice may suggest, for programs that
  // need every result. Default 0: methods with more than 1 % are suggested with feedback.
  double advise_error = 0;
  // MPIQ_RESIDUALS: most bytes that a rank keeps in residuals whose keys the preload library made up; K, M, G
  // as in rules. Default: a quarter of the node's memory, divided by its ranks.
  std::uint64_t residual_bytes = 0;
  // MPIQ_ISA: scalar, avx2 or avx512: the instruction set of the codecs. Default: the best the processor has.
  kernels::Isa isa = kernels::best_isa();
  // MPIQ_THREADS: codec threads of a rank, 1 to 64; used if the library was built with OpenMP. Default 1:
  // none but the caller's.
  int threads = 1;
  // MPIQ_WATCHDOG: seconds after which a rank that waits for the others at the first call of a communicator
  // says so on stderr, once; 0: never. Default 30.
  int watchdog = 30;
  // MPIQ_CUDA: auto or off. auto, the default: GPU memory is known where the program itself has mapped a CUDA
  // driver; off: everything is host memory to the library.
  bool cuda = true;
  // MPIQ_CUDA_SYNC: legacy, perthread, none or device: what of the GPU's work before a call its vectors wait
  // for. Default legacy: what a synchronous copy would wait for.
  DeviceSync cuda_sync = DeviceSync::legacy;
  // MPIQ_CUDA_WIRE: host, device or auto: where messages are made of vectors in GPU memory. Each rank's own
  // affair. Default host: any MPI can send them.
  DeviceWire cuda_wire = DeviceWire::host;
  // MPIQ_CUDA_TIME: on or off: whether steps on a GPU are timed, by its clock, for encode_s and decode_s of
  // MPIQ_Stats, which else leave them out. Costs an event a step. Default: on if a report is written.
  bool cuda_time = false;
  // MPIQ_NODE_RANKS: take every so many consecutive ranks of a communicator for those of one node, whatever
  // machines they run on; 1: every rank is a node of its own. For the plan hierarchical, and for tests of it.
  // Counts where all ranks have the same and it divides their number; else nodes have one rank. Default 0:
  // the nodes are those of MPI (ranks that can share memory).
  int node_ranks = 0;
};

// The environment at the first call, or what is wrong with it.
const Result<Env>& env();

// MPIQ_POLICY, or else the rules in MPIQ_POLICY_FILE, or else "", whatever is wrong with the rest of the
// environment; an error if that file cannot be read.
Result<std::string> policy_of_environment();

// The file that policy_of_environment() reads; "" for none.
std::string policy_file_of_environment();

// Rules of a file, where # begins a comment and line ends separate rules as semicolons do.
Result<std::string> rules_of_file(const std::string& path);
// Its lines, without comments.
Result<std::vector<std::string>> lines_of_rules(const std::string& path);

// A relative error as a user writes it, "1e-6"; none: not a finite number above 0.
std::optional<double> relative_error(std::string_view text);

// Sets a variable for programs started from here; "" leaves it as it is.
void pass_on(const char* variable, const std::string& value);
// Sets the policy for programs started from here, be it empty.
void pass_on_policy(const std::string& rules);
// Puts a library before those that programs started from here preload.
void prepend_preload(const std::string& library);

// The rank in the program, as the launcher says (Hydra, Open MPI, Slurm); 0 if it says nothing.
int rank_by_launcher();

// Ranks of this program on this node, as the launcher says (Hydra, Open MPI); 1 if it says nothing.
int ranks_on_node();

}  // namespace mq
