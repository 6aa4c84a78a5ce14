// Every environment variable of the library, read once. Separate because nothing else may call getenv.
#pragma once

#include <string>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

struct Env {
  // MPIQ_POLICY: rules for communicators whose policy was not set by MPIQ_Comm_set_policy. Rank 0's counts.
  // "" for none.
  std::string policy;
  // MPIQ_ISA: scalar, avx2 or avx512: the instruction set of the codecs. Default: the best the processor has.
  kernels::Isa isa = kernels::best_isa();
};

// The environment at the first call, or what is wrong with it.
const Result<Env>& env();

// The same from given values (null: not set), for tests.
Result<Env> parse_env(const char* policy, const char* isa);

}  // namespace mq
