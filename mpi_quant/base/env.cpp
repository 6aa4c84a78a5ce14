#include "mpi_quant/base/env.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <span>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/base/launchers.h"
#include "mpi_quant/base/memory_limit.hpp"

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

// Reads the number in a variable, from least to most. Leaves `number` alone if the variable is not set.
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

// Reads a relative error above 0 in a variable. Leaves `error` alone if the variable is not set.
Status read_error(const char* variable, double& error) {
  const char* const text = std::getenv(variable);
  if (!is_set(text)) return {};
  const std::optional<double> read = relative_error(text);
  if (!read)
    return {Code::bad_policy,
            std::string(variable) + ": \"" + text + "\" is not a number above 0, like 1e-6"};
  error = *read;
  return {};
}

// Reads the word in a variable, as its position in `known`. Leaves `out` alone if the variable is not set.
template <class E>
Status read_word(const char* variable, std::span<const std::string_view> known, E& out) {
  const char* const text = std::getenv(variable);
  if (!is_set(text)) return {};
  const auto at = std::find(known.begin(), known.end(), text);
  if (at == known.end()) {
    std::string words;
    for (const std::string_view word : known) words.append(words.empty() ? "" : ", ").append(word);
    return {Code::bad_policy,
            std::string(variable) + ": unknown word \"" + text + "\" (known: " + words + ")"};
  }
  out = static_cast<E>(at - known.begin());
  return {};
}

Status read_cuda(Env& e) {
  constexpr std::array<std::string_view, 2> kOffOrAuto{"off", "auto"};
  MQ_TRY(read_word("MPIQ_CUDA", kOffOrAuto, e.cuda));
  MQ_TRY(read_word("MPIQ_CUDA_SYNC", kDeviceSyncs, e.cuda_sync));
  MQ_TRY(read_word("MPIQ_CUDA_WIRE", kDeviceWires, e.cuda_wire));
  MQ_TRY(read_number("MPIQ_CUDA_SEGMENTS", 1, kMostCudaSegments, e.cuda_segments));
  constexpr std::array<std::string_view, 2> kOffOrOn{"off", "on"};
  e.cuda_time = !e.report.empty();
  return read_word("MPIQ_CUDA_TIME", kOffOrOn, e.cuda_time);
}

// Reads "512M" as bytes.
Status read_bytes(const char* variable, const char* text, std::uint64_t& bytes) {
  const std::string_view word = text;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bytes);
  const std::string_view suffix(end, static_cast<std::size_t>(word.data() + word.size() - end));
  const unsigned shift = suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : 0;
  if (error != std::errc{} || (shift == 0 && !suffix.empty()) || bytes > UINT64_MAX >> shift)
    return {Code::bad_policy, std::string(variable) + ": \"" + text + "\" is not a size, like 512M"};
  bytes <<= shift;
  return {};
}

Status read_knowledge(Env& e) {
  if (const char* const out = std::getenv("MPIQ_KNOWLEDGE_OUT"); is_set(out)) {
    e.knowledge_out = out;
    if (rank_by_launcher() == 0 && !std::ofstream(out, std::ios::app))
      return {Code::bad_policy, std::string("MPIQ_KNOWLEDGE_OUT: cannot write \"") + out + "\""};
  }
  const char* const path = std::getenv("MPIQ_KNOWLEDGE");
  if (!is_set(path)) return {};
  std::error_code error;
  std::ifstream file(path);
  const bool readable = file && !std::filesystem::is_directory(path, error);
  if (readable) e.knowledge.assign(std::istreambuf_iterator<char>(file), {});
  if (!readable || file.bad())
    return {Code::bad_policy, std::string("MPIQ_KNOWLEDGE: cannot read \"") + path + "\""};
  e.has_knowledge = true;
  return {};
}

Status read_seed(const char* text, std::uint64_t& seed) {
  if (parse_seed(text, seed)) return {};
  return {Code::bad_policy,
          std::string("MPIQ_SEED: \"") + text + "\" is not a whole number from 0 to 2^64 - 1"};
}

std::uint64_t fair_share_of_memory() {
  const std::uint64_t bytes = memory_limit();
  return bytes == UINT64_MAX ? bytes : bytes / 4 / static_cast<std::uint64_t>(ranks_on_node());
}

Result<Env> read_env() {
  Env e;
  Result<std::string> policy = policy_of_environment();
  if (!policy.ok()) return policy.status();
  e.policy = std::move(*policy);
  e.policy_file = policy_file_of_environment();
  MQ_TRY(read_knowledge(e));
  MQ_TRY(read_word("MPIQ_MODE", kModes, e.mode));
  const char* const report = std::getenv("MPIQ_REPORT");
  e.report = is_set(report) ? report : e.mode == Mode::on ? "" : "-";
  MQ_TRY(read_error("MPIQ_ADVISE_ERROR", e.advise_error));
  e.residual_bytes = fair_share_of_memory();
  if (const char* const most = std::getenv("MPIQ_RESIDUALS"); is_set(most))
    MQ_TRY(read_bytes("MPIQ_RESIDUALS", most, e.residual_bytes));
  if (const char* const isa = std::getenv("MPIQ_ISA"); is_set(isa)) MQ_TRY(read_isa(isa, e.isa));
  MQ_TRY(read_number("MPIQ_THREADS", 1, kMaxThreads, e.threads));
  if (const char* const seed = std::getenv("MPIQ_SEED"); is_set(seed)) MQ_TRY(read_seed(seed, e.seed));
  MQ_TRY(read_number("MPIQ_WATCHDOG", 0, 86400, e.watchdog));
  constexpr std::array<std::string_view, 2> kSpinOrSleep{"spin", "sleep"};
  MQ_TRY(read_word("MPIQ_WAIT", kSpinOrSleep, e.sleeps));
  MQ_TRY(read_cuda(e));
  MQ_TRY(read_number("MPIQ_NODE_RANKS", 0, 1 << 20, e.node_ranks));
  return e;
}

}  // namespace

bool parse_seed(std::string_view text, std::uint64_t& seed) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc{} && end == text.data() + text.size();
}

const Result<Env>& env() {
  static Immortal<Result<Env>> e([]() -> Result<Env> {  // immortal, because MPI_Finalize may run in atexit
    try {
      return read_env();
    } catch (const std::bad_alloc&) {
      return Status{Code::no_memory, "out of memory"};  // short enough to need no memory
    }
  }());
  return *e;
}

std::string policy_file_of_environment() {
  const char* const file = std::getenv("MPIQ_POLICY_FILE");
  return is_set(std::getenv("MPIQ_POLICY")) || !is_set(file) ? "" : file;
}

Result<std::string> policy_of_environment() {
  if (const char* const policy = std::getenv("MPIQ_POLICY"); is_set(policy)) return std::string(policy);
  const std::string file = policy_file_of_environment();
  if (file.empty()) return std::string();
  Result<std::string> rules = rules_of_file(file);
  if (rules.ok()) return rules;
  return Status{rules.status().code(), "MPIQ_POLICY_FILE: " + rules.status().text()};
}

Result<std::vector<std::string>> lines_of_rules(const std::string& path) {
  const Status unreadable{Code::bad_policy, "cannot read \"" + path + "\""};
  std::error_code error;
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path, error)) return unreadable;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    lines.push_back(std::move(line));
  }
  return file.bad() ? Result<std::vector<std::string>>(unreadable) : lines;
}

Result<std::string> rules_of_file(const std::string& path) {
  const Result<std::vector<std::string>> lines = lines_of_rules(path);
  if (!lines.ok()) return lines.status();
  std::string rules;
  for (const std::string& line : *lines) {
    const auto first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r;");
    if (first == std::string::npos || last == std::string::npos) continue;
    rules.append(rules.empty() ? "" : "; ").append(line, first, last - first + 1);
  }
  return rules;
}

std::optional<double> relative_error(std::string_view text) {
  double read = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), read);
  const bool whole = problem == std::errc{} && end == text.data() + text.size();
  return whole && std::isfinite(read) && read > 0 ? std::optional(read) : std::nullopt;
}

void pass_on(const char* variable, const std::string& value) {
  if (!value.empty()) (void)setenv(variable, value.c_str(), 1);
}

void pass_on_policy(const std::string& rules) {
  (void)unsetenv("MPIQ_POLICY_FILE");
  (void)setenv("MPIQ_POLICY", rules.c_str(), 1);
}

void prepend_preload(const std::string& library) {
  const char* const others = std::getenv("LD_PRELOAD");
  const std::string all = is_set(others) ? library + ":" + others : library;
  (void)setenv("LD_PRELOAD", all.c_str(), 1);
}

bool is_under_mpiq_run() { return is_set(std::getenv("MPIQ_RUN")); }

int rank_by_launcher() {
  for (const mpiq_launcher& launcher : mpiq_launchers)
    if (const char* const text = std::getenv(launcher.rank)) return std::atoi(text);
  return 0;
}

int ranks_on_node() {
  // MPICH, Open MPI, MVAPICH, PALS.
  for (const char* name :
       {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE"})
    if (const char* const text = std::getenv(name)) return std::max(1, std::atoi(text));
  // srun: "2(x3),1" for three nodes of two ranks and one of one. The most of any node will do.
  int ranks = 1;
  if (const char* const text = std::getenv("SLURM_STEP_TASKS_PER_NODE"); is_set(text))
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      int n = 0;
      (void)std::from_chars(rest.data(), rest.data() + end, n);
      ranks = std::max(ranks, n);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  return ranks;
}

}  // namespace mq
