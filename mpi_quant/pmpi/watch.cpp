#include "mpi_quant/pmpi/watch.hpp"

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/execute.hpp"
#include "mpi_quant/pmpi/gather.hpp"
#include "mpi_quant/pmpi/report.hpp"

namespace mq {

int internal::watching = 0;

namespace {

std::uint64_t start_ticks = 0;
double start_s = 0;
bool all_ranks = false;  // come to finalize with a record

// The first line, with blanks for tabs.
std::string first_line(std::string text) {
  text.resize(std::min(text.find_first_of("\n\r"), text.size()));
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text)
    if (c == '\0') c = ' ';
  return text;
}

ReportFacts facts_of_run(double elapsed_s, int ranks) {
  ReportFacts facts;
  facts.mode = kModes[static_cast<std::size_t>(env()->mode)];
  const Result<Policy> policy = Policy::parse(env()->policy);
  facts.policy = policy.ok() ? policy->to_string() : env()->policy;
  facts.version = std::to_string(MPIQ_VERSION_MAJOR) + "." + std::to_string(MPIQ_VERSION_MINOR) + "." +
                  std::to_string(MPIQ_VERSION_PATCH);
  std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + 1);
  int length = 0;
  (void)PMPI_Get_library_version(text.data(), &length);
  facts.mpi = first_line(text.data());
  facts.command = command_line();
  facts.elapsed_s = elapsed_s;
  facts.ranks = ranks;
  return facts;
}

RankFacts facts_of_rank() {
  RankFacts facts;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    facts.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  const CommState::Memory held = CommState::memory();
  facts.scratch_bytes = held.scratch_bytes;
  facts.residual_bytes = held.residual_bytes;
  return facts;
}

// Ticks into seconds.
Record finished_record(double elapsed_s) {
  Record record = whole_record();
  const double elapsed_ticks = static_cast<double>(ticks() - start_ticks);
  for (auto* const table : {&record.sites})
    for (auto& [id, numbers] : *table) numbers.seconds *= elapsed_s / elapsed_ticks;
  for (auto& [id, numbers] : record.classes) numbers.seconds *= elapsed_s / elapsed_ticks;
  return record;
}

void write(const Report& report, std::string path, const std::string& rank) {
  const bool json = path.ends_with(".json");
  const std::string text = json ? to_json(report) : to_table(report);
  if (path == "-") {
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  path += rank;
  std::ofstream file(path);
  if (!(file << text).flush())
    (void)std::fprintf(stderr, "mpi_quant: cannot write the report \"%s\": %s\n", path.c_str(),
                       std::strerror(errno));
}

// The report of what came. ranks: of the program.
void write_all(const Gathered& gathered, double elapsed_s, int ranks, const std::string& suffix) {
  std::vector<Record> records;
  std::vector<RankFacts> facts;
  for (std::string_view text : gathered.texts) {
    records.emplace_back();
    facts.emplace_back();
    if (text.size() < sizeof(RankFacts)) continue;
    std::memcpy(&facts.back(), text.data(), sizeof(RankFacts));
    text.remove_prefix(sizeof(RankFacts));
    if (!parse(text, records.back())) records.back() = {};
  }
  write(merge(facts_of_run(elapsed_s, ranks), records, facts), env()->report, suffix);
  if (gathered.came < ranks)
    (void)std::fprintf(stderr,
                       "mpi_quant: a report of %d of %d ranks: the others did not come in time; do all have "
                       "MPIQ_REPORT and MPIQ_MODE?\n",
                       gathered.came, ranks);
}

Status conclude_run() {
  const double elapsed_s = now_s() - start_s;
  const RankFacts own = facts_of_rank();
  std::string mine(reinterpret_cast<const char*>(&own), sizeof own);
  mine += to_text(finished_record(elapsed_s));
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  Result<Gathered> gathered = Gathered{{mine}, 1, false};
  if (all_ranks) gathered = gather(MPI_COMM_WORLD, mine);
  if (!gathered.ok()) return gathered.status();
  if (rank == 0 || gathered->came == 1)
    write_all(*gathered, elapsed_s, size, gathered->came == size ? "" : "." + std::to_string(rank));
  return {};
}

// A report that cannot be made is no reason to disturb the end of a program.
void conclude() {
  internal::watching = 0;
  try {
    const Status status = conclude_run();
    if (!status.ok()) (void)std::fprintf(stderr, "mpi_quant: no report: %s\n", status.text().c_str());
  } catch (const std::bad_alloc&) {
    (void)std::fputs("mpi_quant: no report: out of memory\n", stderr);
  }
}

}  // namespace

void watch(bool after_init) noexcept {
  static std::atomic<bool> asked = false;
  if (asked.exchange(true)) return;
  if (!env().ok() || env()->report.empty() || !CommState::watch_finalize().ok()) return;
  all_ranks = after_init;
  start_ticks = ticks();
  start_s = now_s();
  CommState::at_finalize(conclude);
  internal::watching = 1;
}

}  // namespace mq
