// Every environment variable of the library, read once. Separate because nothing else may call getenv.
#pragma once

#include <string>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

inline constexpr int kMaxThreads = 64;

struct Env {
  // MPIQ_POLICY: rules for communicators whose policy was not set by MPIQ_Comm_set_policy. Rank 0's counts.
  // "" for none.
  std::string policy;
  // MPIQ_ISA: scalar, avx2 or avx512: the instruction set of the codecs. Default: the best the processor has.
  kernels::Isa isa = kernels::best_isa();
  // MPIQ_THREADS: codec threads of a rank, 1 to 64; used if the library was built with OpenMP. Default 1:
  // none but the caller's.
  int threads = 1;
  // MPIQ_WATCHDOG: seconds after which a rank that waits for the others at the first call of a communicator
  // says so on stderr, once; 0: never. Default 30.
  int watchdog = 30;
};

// The environment at the first call, or what is wrong with it.
const Result<Env>& env();

// MPIQ_POLICY or "", whatever is wrong with the rest of the environment.
std::string policy_of_environment();

// Puts a library before those that programs started from here preload.
void prepend_preload(const std::string& library);

// The rank in the program, as the launcher says (Hydra, Open MPI, Slurm); 0 if it says nothing.
int rank_by_launcher();

// Ranks of this program on this node, as the launcher says (Hydra, Open MPI); 1 if it says nothing.
int ranks_on_node();

}  // namespace mq
