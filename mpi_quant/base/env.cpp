#include "mpi_quant/base/env.hpp"

#include <cstdlib>

namespace mq {

Result<Env> parse_env(const char* policy, const char* isa) {
  Env e;
  if (policy != nullptr) e.policy = policy;
  if (isa == nullptr || *isa == '\0') return e;
  for (const kernels::Isa known : kernels::kIsas) {
    if (kernels::name(known) != isa) continue;
    if (known > kernels::best_isa())
      return Status{Code::bad_policy, std::string("MPIQ_ISA: this processor has no ") + isa};
    e.isa = known;
    return e;
  }
  return Status{Code::bad_policy, std::string("MPIQ_ISA: unknown instruction set \"") + isa +
                                      "\" (known: scalar, avx2, avx512)"};
}

const Result<Env>& env() {
  static const Result<Env> e = parse_env(std::getenv("MPIQ_POLICY"), std::getenv("MPIQ_ISA"));
  return e;
}

}  // namespace mq
