#include "mpi_quant/pmpi/watch.hpp"

#include <mpi.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/execute.hpp"
#include "mpi_quant/pmpi/report.hpp"
#include "mpi_quant/watchdog.hpp"

namespace mq {

int internal::watching = 0;

namespace {

std::uint64_t start_ticks = 0;
double start_s = 0;
bool all_ranks = false;  // come to finalize with a record

std::string first_line(std::string text) { return text.substr(0, text.find_first_of("\n\r")); }

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

// The texts of all ranks at rank 0. Collective over comm.
Result<std::vector<std::string>> gather(MPI_Comm comm, const std::string& mine) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(PMPI_Ibarrier(comm, &request), "MPI_Ibarrier"));
  MQ_TRY(wait_watched(comm, request, "to write the report", "do all ranks have MPIQ_REPORT and MPIQ_MODE?"));
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(size)), starts(static_cast<std::size_t>(size));
  MQ_TRY(mpi_status(PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm), "MPI_Gather"));
  int total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    starts[i] = total;
    total += rank == 0 ? lengths[i] : 0;
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  MQ_TRY(mpi_status(PMPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(),
                                 MPI_CHAR, 0, comm),
                    "MPI_Gatherv"));
  std::vector<std::string> texts;
  for (std::size_t i = 0; rank == 0 && i < lengths.size(); ++i)
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  return texts;
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

Status conclude_run() {
  const double elapsed_s = now_s() - start_s;
  const Record record = finished_record(elapsed_s);
  const RankFacts own = facts_of_rank();
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  if (!all_ranks) {
    write(merge(facts_of_run(elapsed_s, 1), {record}, {own}), env()->report, "." + std::to_string(rank));
    return {};
  }
  const std::string head{reinterpret_cast<const char*>(&own), sizeof own};
  const Result<std::vector<std::string>> texts = gather(MPI_COMM_WORLD, head + to_text(record));
  if (!texts.ok()) return texts.status();
  if (rank != 0) return {};
  std::vector<Record> records;
  std::vector<RankFacts> facts;
  for (const std::string& text : *texts) {
    std::memcpy(&facts.emplace_back(), text.data(), sizeof own);
    if (!parse(std::string_view(text).substr(sizeof own), records.emplace_back())) records.back() = {};
  }
  write(merge(facts_of_run(elapsed_s, size), records, facts), env()->report, "");
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
