#include "mpi_quant/base/env.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace mq {

namespace {

Status read_isa(const char* text, kernels::Isa& isa) {
  for (const kernels::Isa known : kernels::kIsas) {
    if (kernels::name(known) != text) continue;
    if (known > kernels::best_isa())
      return {Code::bad_policy, std::string("MPIQ_ISA: this processor has no ") + text};
    isa = known;
    return {};
  }
  return {Code::bad_policy,
          std::string("MPIQ_ISA: unknown instruction set \"") + text + "\" (known: scalar, avx2, avx512)"};
}

Status read_threads(std::string_view text, int& threads) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 1 || n > kMaxThreads)
    return {Code::bad_policy, "MPIQ_THREADS: \"" + std::string(text) + "\" is not a number from 1 to " +
                                  std::to_string(kMaxThreads)};
  threads = n;
  return {};
}

bool is_set(const char* text) { return text != nullptr && *text != '\0'; }

}  // namespace

Result<Env> parse_env(const char* policy, const char* isa, const char* threads) {
  Env e;
  if (policy != nullptr) e.policy = policy;
  if (is_set(isa)) MQ_TRY(read_isa(isa, e.isa));
  if (is_set(threads)) MQ_TRY(read_threads(threads, e.threads));
  return e;
}

const Result<Env>& env() {
  static const Result<Env> e =
      parse_env(std::getenv("MPIQ_POLICY"), std::getenv("MPIQ_ISA"), std::getenv("MPIQ_THREADS"));
  return e;
}

int ranks_on_node() {
  int ranks = 1;
  for (const char* name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (const char* const text = std::getenv(name)) ranks = std::max(ranks, std::atoi(text));
  return ranks;
}

}  // namespace mq
