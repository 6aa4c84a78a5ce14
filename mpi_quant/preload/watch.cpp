#include "mpi_quant/preload/watch.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/advisor/live.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/pack.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/base/variables.hpp"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/registry.hpp"
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/preload/control.hpp"
#include "mpi_quant/report/gather.hpp"
#include "mpi_quant/report/report.hpp"

namespace mq {

int internal::watching_word = 0;

namespace {

void set_watching(bool on) { std::atomic_ref(internal::watching_word).store(on, std::memory_order_relaxed); }

std::uint64_t start_ticks = 0;
double start_s = 0, start_wait_s = 0;
bool began_in_init = false;  // on all ranks that want a report

// The first line of a text, with blanks in place of tabs.
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

std::string version_text() {
  return std::to_string(MPIQ_VERSION_MAJOR) + "." + std::to_string(MPIQ_VERSION_MINOR) + "." +
         std::to_string(MPIQ_VERSION_PATCH);
}

RunInfo info_of_run(double elapsed_s, int ranks) {
  RunInfo info;
  info.mode = kModes[static_cast<std::size_t>(env()->mode)];
  const Result<Policy> policy = Policy::parse(env()->policy);
  info.policy = policy.ok() ? policy->to_string() : env()->policy;
  info.version = version_text();
  std::vector<char> text(MPI_MAX_LIBRARY_VERSION_STRING + 1);
  int length = 0;
  (void)PMPI_Get_library_version(text.data(), &length);
  info.mpi = first_line(text.data());
  info.command = command_line();
  if (const char* const local_error = device_unusable_reason())
    info.gpu = local_error;
  else if (const char* const reason = staging_reason())
    info.gpu = std::string("vectors are copied to the host and back: ") + reason;
  for (const Mistyped& mistyped : mistyped_variables()) info.mistyped.push_back(words(mistyped));
  info.choices = choice_summaries();
  info.elapsed_s = elapsed_s;
  info.ranks = ranks;
  return info;
}

// Seconds so far in which this process was ready to run but had no core; 0 if the system does not say.
double waited_for_core_s() {
  double ran_ns = 0, waited_ns = 0;
  std::ifstream file("/proc/self/schedstat");
  return file >> ran_ns >> waited_ns ? 1e-9 * waited_ns : 0;
}

Cores cores_of_rank(double elapsed_s) {
  Cores cores;
  cores.waited = elapsed_s > 0 ? (waited_for_core_s() - start_wait_s) / elapsed_s : 0;
  cores.ranks = ranks_on_node();
  cores.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return cores;
}

RankInfo info_of_rank() {
  RankInfo info;
  (void)gethostname(info.host.data(), info.host.size() - 1);  // the last byte stays zero
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    info.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  const HeldMemory held = held_memory();
  info.scratch_bytes = held.scratch_bytes;
  info.residual_bytes = held.residual_bytes;
  info.unfinished_requests = unfinished_requests();
  info.unknown_commands = unknown_commands();
  return info;
}

// The record of this rank, with ticks converted into seconds.
Record finished_record(double elapsed_s) {
  Record record = whole_record();
  const double elapsed_ticks = static_cast<double>(ticks() - start_ticks);
  for (auto* const table : {&record.sites})
    for (auto& [id, numbers] : *table) numbers.seconds *= elapsed_s / elapsed_ticks;
  for (auto& [id, numbers] : record.classes) numbers.seconds *= elapsed_s / elapsed_ticks;
  return record;
}

// What one rank sends.
struct OfRank {
  RankInfo info;
  Cores cores;
  Mode mode = Mode::on;
  Record record;
  Samples samples;  // of a rank that advises
  static void each_field(auto& of, auto& f) {
    f(of.info);
    f(of.cores);
    f(of.mode);
    f(of.record);
    f(of.samples);
  }
};

std::string own_kind() { return record_kind(version_text(), candidates()); }

std::string bring(double elapsed_s) {
  OfRank mine{info_of_rank(), cores_of_rank(elapsed_s), env()->mode, finished_record(elapsed_s), {}};
  if (mine.mode == Mode::advise) mine.samples = own_samples();
  return pack(own_kind(), mine);
}

// What all ranks have sent.
struct Evidences {
  std::vector<RankInfo> info;
  std::vector<Record> records;
  std::vector<Samples> samples;
  Cores cores;
  bool all_advise = true;

  explicit Evidences(const std::vector<std::string>& sent) {
    for (const std::string_view bytes : sent) {
      OfRank of;
      const Status read = unpack(own_kind(), bytes, of);
      if (!read.ok())
        (void)std::fprintf(stderr, "mpi_quant: the report lacks rank %zu: %s\n", records.size(),
                           read.text().c_str());
      all_advise = all_advise && of.mode == Mode::advise;
      info.push_back(of.info);
      add(of.cores);
      records.push_back(std::move(of.record));
      samples.push_back(std::move(of.samples));
    }
  }

 private:
  void add(const Cores& of_a_rank) {
    cores.waited = std::max(cores.waited, of_a_rank.waited);
    if (cores.cores > 0 &&
        std::int64_t{of_a_rank.ranks} * cores.cores <= std::int64_t{cores.ranks} * of_a_rank.cores)
      return;
    cores.ranks = of_a_rank.ranks;
    cores.cores = of_a_rank.cores;
  }
};

// A symbolic link that somebody else made could lead the report over a file of the user.
int open_report(const std::string& path, int how) {
  return open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | how, 0666);
}

const char* reason(int error) {
  return error == ELOOP ? "it is a symbolic link, which is not followed" : std::strerror(error);
}

// Says at the start what would otherwise be said after hours: that rank 0 cannot write the report. Nothing
// that is there is changed. A FIFO is not opened, because whoever reads it would take that for the report.
void try_report(const std::string& path) {
  int rank = 0;
  struct stat there {};
  if (path == "-" || PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || rank != 0) return;
  const bool exists = lstat(path.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode) && !S_ISDIR(there.st_mode)) return;
  const int descriptor = open_report(path, exists ? 0 : O_CREAT | O_EXCL);
  const int error = errno;
  if (descriptor >= 0) (void)close(descriptor);
  if (descriptor >= 0 && !exists) (void)unlink(path.c_str());
  if (descriptor < 0 && error != EEXIST)
    (void)std::fprintf(stderr, "mpi_quant: there will be no report \"%s\": %s\n", path.c_str(),
                       reason(error));
}

void write(const std::string& text, const std::string& path) {
  if (path == "-") {
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  const int descriptor = open_report(path, O_CREAT | O_TRUNC);
  bool written = descriptor >= 0;
  for (std::size_t at = 0; written && at < text.size();) {
    const ssize_t n = ::write(descriptor, text.data() + at, text.size() - at);
    written = n >= 0 || errno == EINTR;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  const int error = errno;
  if (descriptor >= 0) written = close(descriptor) == 0 && written;
  if (!written)
    (void)std::fprintf(stderr, "mpi_quant: cannot write the report \"%s\": %s\n", path.c_str(),
                       reason(error));
}

std::string text_of(const Report& report, const Evidence& evidence, bool json) {
  const bool advises = env()->mode == Mode::advise;
  if (json && advises) return to_json(report, advice_json(evidence), suggestion_json(evidence));
  if (json) return to_json(report);
  if (!advises) return to_table(report);
  std::array<char, 200> spent;
  (void)std::snprintf(spent.data(), spent.size(),
                      "The advisor took %.3g s of rank 0's %.3g s, and %.3g s at the end.\n",
                      advisor_seconds(), report.info.elapsed_s, now_s() - start_s - report.info.elapsed_s);
  return to_table(report) + "\n" + advice_text(evidence) + spent.data();
}

// One report of all ranks. Rank 0 writes it.
Status conclude_together(const std::string& mine, double elapsed_s, int rank, int size) {
  const Result<std::vector<std::string>> texts = gather(MPI_COMM_WORLD, mine);
  if (!texts.ok()) return texts.status();
  const Evidences all(*texts);
  Evidence evidence{all.records, all.samples, {}, {}, all.cores, env()->advise_error};
  int measures = all.all_advise;
  MQ_TRY(mpi_status(real_mpi().bcast(&measures, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast"));
  Field field;
  if (measures) {
    const Result<Field> measured = measure_field(evidence);
    if (!measured.ok()) return measured.status();
    field = *measured;
    evidence.link = field.link;
    evidence.validations = field.validations;
  }
  if (rank != 0) return {};
  const Report report = merge(info_of_run(elapsed_s, size), all.records, all.info);
  write(text_of(report, evidence, env()->report.ends_with(".json")), env()->report);
  return {};
}

// A report of this rank alone.
void conclude_alone(const std::string& mine, double elapsed_s, int rank, int size) {
  const Evidences own({mine});
  const Evidence evidence{own.records, own.samples, {}, {}, own.cores, env()->advise_error};
  const std::string& path = env()->report;
  const Report report = merge(info_of_run(elapsed_s, size), own.records, own.info);
  write(text_of(report, evidence, path.ends_with(".json")),
        path == "-" ? path : path + "." + std::to_string(rank));
  (void)std::fprintf(
      stderr,
      "mpi_quant: a report of 1 of %d ranks: the others have another MPIQ_MODE, or no MPIQ_REPORT, or came "
      "too late, or MPI was initialized before the library was loaded\n",
      size);
}

// Whether all ranks write one report. They know it of each other from the first large sum of the world. If
// there was none, they wait for each other, but not for ever.
Result<bool> is_together(int size) {
  if (size == 1 || !began_in_init) return size == 1;
  const CommState* const world = find_state(MPI_COMM_WORLD);
  return world != nullptr ? Result<bool>(world->policy.same_watch) : all_come(MPI_COMM_WORLD);
}

Status conclude_run() {
  const double elapsed_s = now_s() - start_s;
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  const std::string mine = bring(elapsed_s);
  const Result<bool> together = is_together(size);
  if (!together.ok()) return together.status();
  if (*together) return conclude_together(mine, elapsed_s, rank, size);
  conclude_alone(mine, elapsed_s, rank, size);
  return {};
}

// A report that cannot be made must not disturb the end of a program.
bool conclude() {
  set_watching(false);
  try {
    const Status status = conclude_run();
    if (!status.ok()) (void)std::fprintf(stderr, "mpi_quant: no report: %s\n", status.text().c_str());
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "mpi_quant: no report: %s\n", error.what());
  }
  return true;
}

std::array<std::atomic<std::uint64_t>, kFeedbackOutcomes> noted{};  // calls of this rank

// Of rank 0's calls. It takes some dozens of calls until a vector is recognised.
bool warn_of_feedback() {
  int rank = 0;
  if (PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || rank != 0) return false;
  try {
    Merged calls;
    for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) calls.sum.feedback[i] = noted[i];
    const Warning warning = feedback_warning(calls);
    constexpr std::uint64_t kLearning = 64;
    const bool is_learning =
        calls.feedback_calls(Fate::waiting) + calls.feedback_calls(Fate::fine) < kLearning &&
        calls.feedback_calls(Fate::lost) == 0;
    if (!warning.what.empty() && !is_learning)
      (void)std::fprintf(stderr, "mpi_quant: %s %s Run with --report - to see more.\n", warning.what.c_str(),
                         warning.remedy.c_str());
  } catch (const std::bad_alloc&) {
    return false;  // then it is not said
  }
  return false;
}

}  // namespace

void note_feedback(FeedbackOutcome outcome) noexcept {
  noted[static_cast<std::size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
}

void watch(bool after_init) noexcept {
  static std::atomic<bool> asked = false;
  if (asked.exchange(true)) return;
  try {
    if (!env().ok()) return;
    if (env()->report.empty()) return is_under_mpiq_run() ? at_finalize(warn_of_feedback) : void();
    if (!watch_finalize().ok()) return;
  } catch (const std::bad_alloc&) {
    return;
  }
  try_report(env()->report);
  began_in_init = after_init;
  start_ticks = ticks();
  start_s = now_s();
  start_wait_s = waited_for_core_s();
  at_finalize(conclude);
  set_watching(true);
}

}  // namespace mq
