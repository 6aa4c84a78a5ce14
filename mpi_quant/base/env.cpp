#include "mpi_quant/base/env.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace mq {

namespace {

bool is_set(const char* text) { return text != nullptr && *text != '\0'; }

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

// The number in a variable that is set, from least to most.
Status read_number(const char* variable, int least, int most, int& number) {
  const char* const text = std::getenv(variable);
  if (!is_set(text)) return {};
  const std::string_view word = text;
  int n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size() || n < least || n > most)
    return {Code::bad_policy, std::string(variable) + ": \"" + text + "\" is not a number from " +
                                  std::to_string(least) + " to " + std::to_string(most)};
  number = n;
  return {};
}

Result<Env> read_env() {
  Env e;
  e.policy = policy_of_environment();
  if (const char* const isa = std::getenv("MPIQ_ISA"); is_set(isa)) MQ_TRY(read_isa(isa, e.isa));
  MQ_TRY(read_number("MPIQ_THREADS", 1, kMaxThreads, e.threads));
  MQ_TRY(read_number("MPIQ_WATCHDOG", 0, 86400, e.watchdog));
  return e;
}

}  // namespace

const Result<Env>& env() {
  static const Result<Env> e = read_env();
  return e;
}

std::string policy_of_environment() {
  const char* const policy = std::getenv("MPIQ_POLICY");
  return policy != nullptr ? policy : "";
}

void prepend_preload(const std::string& library) {
  const char* const others = std::getenv("LD_PRELOAD");
  const std::string all = is_set(others) ? library + ":" + others : library;
  (void)setenv("LD_PRELOAD", all.c_str(), 1);
}

int rank_by_launcher() {
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* const text = std::getenv(name)) return std::atoi(text);
  return 0;
}

int ranks_on_node() {
  int ranks = 1;
  for (const char* name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (const char* const text = std::getenv(name)) ranks = std::max(ranks, std::atoi(text));
  return ranks;
}

}  // namespace mq
