#include "mpi_quant/report/watch.hpp"

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
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
#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/comm_state.hpp"
#include "mpi_quant/execute.hpp"
#include "mpi_quant/report/gather.hpp"
#include "mpi_quant/report/report.hpp"

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

// What one rank brings: facts, record, samples.
std::string bring(double elapsed_s) {
  const RankFacts facts = facts_of_rank();
  const std::string record = to_text(finished_record(elapsed_s));
  const std::uint64_t length = record.size();
  std::string text(reinterpret_cast<const char*>(&facts), sizeof facts);
  text.append(reinterpret_cast<const char*>(&length), sizeof length).append(record);
  return env()->mode == Mode::advise ? text + to_text(own_samples()) : text;
}

// What all ranks brought.
struct Evidences {
  std::vector<RankFacts> facts;
  std::vector<Record> records;
  std::vector<Samples> samples;

  explicit Evidences(const std::vector<std::string>& texts) {
    for (const std::string_view text : texts) {
      facts.emplace_back();
      records.emplace_back();
      samples.emplace_back();
      std::uint64_t length = 0;
      constexpr std::size_t kHead = sizeof(RankFacts) + sizeof length;
      if (text.size() < kHead) continue;
      std::memcpy(&facts.back(), text.data(), sizeof(RankFacts));
      std::memcpy(&length, text.data() + sizeof(RankFacts), sizeof length);
      if (!parse(text.substr(kHead, length), records.back())) records.back() = {};
      if (env()->mode == Mode::advise && !parse(text.substr(kHead + length), samples.back()))
        samples.back() = {};
    }
  }
};

void write(const std::string& text, const std::string& path) {
  if (path == "-") {
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  std::ofstream file(path);
  if (!(file << text).flush())
    (void)std::fprintf(stderr, "mpi_quant: cannot write the report \"%s\": %s\n", path.c_str(),
                       std::strerror(errno));
}

std::string text_of(const Report& report, const Evidence& evidence, bool json) {
  const bool advises = env()->mode == Mode::advise;
  if (json) return to_json(report, advises ? advice_json(evidence) : "");
  if (!advises) return to_table(report);
  std::array<char, 200> spent;
  (void)std::snprintf(spent.data(), spent.size(),
                      "The advisor took %.3g s of rank 0's %.3g s, and %.3g s at the end.\n",
                      advisor_seconds(), report.facts.elapsed_s, now_s() - start_s - report.facts.elapsed_s);
  return to_table(report) + "\n" + advice_text(evidence) + spent.data();
}

Status conclude_run() {
  const double elapsed_s = now_s() - start_s;
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  const std::string mine = bring(elapsed_s);
  Result<Gathered> gathered = Gathered{{mine}, 1, size == 1};
  if (all_ranks) gathered = gather(MPI_COMM_WORLD, mine);
  if (!gathered.ok()) return gathered.status();
  const Evidences all(gathered->texts);
  Evidence evidence{all.records, all.samples, {}, {}};
  Field field;
  if (env()->mode == Mode::advise && gathered->complete) {
    const Result<Field> measured = measure_field(evidence);
    if (!measured.ok()) return measured.status();
    field = *measured;
    evidence.link = field.link;
    evidence.validations = field.validations;
  }
  if (rank != 0 && gathered->came != 1) return {};
  const std::string& path = env()->report;
  const std::string suffix = gathered->came == size || path == "-" ? "" : "." + std::to_string(rank);
  const Report report = merge(facts_of_run(elapsed_s, size), all.records, all.facts);
  write(text_of(report, evidence, path.ends_with(".json")), path + suffix);
  if (gathered->came < size)
    (void)std::fprintf(stderr,
                       "mpi_quant: a report of %d of %d ranks: the others did not come in time; do all have "
                       "MPIQ_REPORT and MPIQ_MODE?\n",
                       gathered->came, size);
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
