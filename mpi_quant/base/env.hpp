// Every environment variable of the library, read once. Nothing else in the library may call getenv.
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
inline constexpr int kMostCudaSegments = 32;

// What the preload library does with the calls of a program.
enum class Mode {
  on,       // does what the policy says
  explain,  // changes nothing and reports what the policy would do
  advise,   // changes nothing and reports what each method would do
};
inline constexpr std::array<std::string_view, 3> kModes{"on", "explain", "advise"};

struct Env {
  // MPIQ_POLICY: rules for communicators whose policy was not set by MPIQ_Comm_set_policy. Rank 0's counts.
  // Without it MPIQ_POLICY_FILE: a file of rules, see rules_of_file. Without both "".
  std::string policy;
  std::string policy_file;  // the file that policy was read from; "" if it is from MPIQ_POLICY
  // MPIQ_KNOWLEDGE: the text of a file that auto has written in an earlier run: it then chooses as the file
  // says and learns nothing. MPIQ_KNOWLEDGE_OUT: the file that rank 0 writes. Default: none.
  std::string knowledge, knowledge_out;
  bool has_knowledge = false;
  // MPIQ_MODE: on, explain or advise, for calls of unmodified programs. Default on.
  Mode mode = Mode::on;
  // MPIQ_REPORT: file for a report on the program's calls. Rank 0 writes it when MPI is finalized. It is JSON
  // if the name ends in .json, else text. "-": text on stderr. All ranks must have the variable. Default:
  // none, or "-" if MPIQ_MODE is explain or advise.
  std::string report;
  // MPIQ_ADVISE_ERROR: the largest relative L2 error of one call that advice may suggest, for programs that
  // need every result. Default 0: methods with more than 1 % are suggested with feedback.
  double advise_error = 0;
  // MPIQ_RESIDUALS: the preload library makes no residual if all residuals of the rank would then take more
  // bytes than this; K, M, G as in rules. Default: a quarter of the node's memory, divided by its ranks.
  std::uint64_t residual_bytes = 0;
  // MPIQ_ISA: scalar, avx2 or avx512: instruction set of the codecs. Default: the best that the processor
  // has.
  kernels::Isa isa = kernels::best_isa();
  // MPIQ_THREADS: codec threads of a rank, 1 to 64. Default 1: only the caller's thread.
  int threads = 1;
  // MPIQ_SEED: seed of random rounding, 0 to 2^64 - 1. If ranks differ, all use the greatest. Default 0.
  std::uint64_t seed = 0;
  // MPIQ_WATCHDOG: a rank that waits longer for the others at the first call on a communicator says so once
  // on stderr, in seconds. 0: never. Default 30. A rank that does not know whether the others write a report
  // waits ten times as long for them.
  int watchdog = 30;
  // MPIQ_WAIT: spin or sleep: what a rank does that waits for messages of the library. Ranks may differ. With
  // spin it tests again and again, and gives its core away if there are more ranks than cores. With sleep it
  // sleeps 50 us between two tests, for programs that have other work for the cores. Default spin.
  bool sleeps = false;
  // MPIQ_CUDA: auto or off. auto (default): the library recognises GPU memory if the program has mapped a
  // CUDA driver. off: the library takes all memory for host memory.
  bool cuda = true;
  // MPIQ_CUDA_SYNC: legacy, perthread, none or device: which earlier work of the GPU a call waits for.
  // Default legacy: the work that a synchronous copy would wait for.
  DeviceSync cuda_sync = DeviceSync::legacy;
  // MPIQ_CUDA_WIRE: host, device or auto: where the messages of vectors in GPU memory are made. Ranks may
  // differ. Default host: any MPI can send them.
  DeviceWire cuda_wire = DeviceWire::host;
  // MPIQ_CUDA_TIME: on or off: whether the GPU's clock times the steps on a GPU, for encode_s and decode_s of
  // MPIQ_Stats. Otherwise these leave such steps out. Costs one event for each step. Default: on if a report
  // is written.
  bool cuda_time = false;
  // MPIQ_CUDA_SEGMENTS: how many segments of a call may be in flight on a GPU; half of them share launches.
  // Ranks may differ. Never fewer than on the processor. For measurements.
  int cuda_segments = kMostCudaSegments;
  // MPIQ_NODE_RANKS: take each group of this many consecutive ranks of a communicator for one node, whatever
  // machines they run on. 1: every rank is a node of its own. It is for the plan hierarchical and its tests.
  // It counts only if all ranks have the same value and it divides their number; otherwise nodes have one
  // rank. Default 0: a node is what MPI says (ranks that can share memory).
  int node_ranks = 0;
};

// Reads a seed, a decimal number. False if the text is none.
bool parse_seed(std::string_view text, std::uint64_t& seed);

// The environment at the time of the first call, or what is wrong with it.
const Result<Env>& env();

// MPIQ_POLICY; or else the rules in MPIQ_POLICY_FILE; or else "". Errors in other variables do not matter. An
// error if the file cannot be read.
Result<std::string> policy_of_environment();

// The file that policy_of_environment() reads; "" for none.
std::string policy_file_of_environment();

// The rules of a file. A # begins a comment. The end of a line separates rules, as a semicolon does.
Result<std::string> rules_of_file(const std::string& path);
// The lines of such a file, without comments.
Result<std::vector<std::string>> lines_of_rules(const std::string& path);

// Reads a relative error, "1e-6". Nothing if the text is not a finite number above 0.
std::optional<double> relative_error(std::string_view text);

// Sets a variable for programs that this process starts. An empty value changes nothing.
void pass_on(const char* variable, const std::string& value);
// Sets the policy for programs that this process starts. It may be empty.
void pass_on_policy(const std::string& rules);
// Puts a library first in LD_PRELOAD, for programs that this process starts.
void prepend_preload(const std::string& library);

// Whether mpiq-run started this program, or a program that started it, and was asked to do something.
bool is_under_mpiq_run();

// The rank of this process, by the variables of the launcher (Hydra, Open MPI, Slurm). 0 if there are none.
int rank_by_launcher();

// Ranks of this program on this node, by the variables of the launcher (Hydra, Open MPI). 1 if there are
// none.
int ranks_on_node();

}  // namespace mq
