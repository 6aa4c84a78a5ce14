// The result file: HDF5, schema "mpi_quant.bench" version 1. It is built in memory. save() writes an image
// beside the file, syncs it and renames it. So a reader always finds the old file or the new one, also after
// the writer was killed. (Appending in place lost rows under SIGKILL.) HDF5's checksums find bytes that have
// changed. Files of earlier versions have a checksum of the whole file after their end, and none inside; it
// is ignored, as HDF5 does. Only rank 0 has a report.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/options.hpp"
#include "bench/rows.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

inline constexpr const char* kSchemaName = "mpi_quant.bench";
inline constexpr std::int32_t kSchemaVersion = 1;

// The head of a file. Its contents must agree before a file is continued.
struct RunInfo {
  std::string command_line, config_json, mpi_library, git_commit, harness_version, build, isa, sync_method;
  bool git_dirty = false;
  std::uint64_t seed = 0;
  double clock_resolution_s = kUnknown, clock_cost_s = kUnknown, barrier_skew_s = kUnknown;
  std::vector<EnvRow> env;
  std::vector<NodeRow> nodes;
  std::vector<RankRow> ranks;
  std::vector<GpuRow> gpus;  // empty: the file has no such table
};

enum Phase : std::size_t { kEncode, kWait, kDecode, kOther, kPhases };

// A row with its repetitions, in the order of measurement. All five series have the same length. valid is 1,
// or 0 if a repetition does not count.
struct Measurement {
  PointRow row;
  std::vector<double> t_max, t_span, skew_in;
  std::vector<std::uint8_t> valid;
  std::vector<std::uint32_t> order;
  std::vector<double> t_rank;        // empty, or the times of all ranks, repetition after repetition
  std::vector<CounterRow> counters;  // with --counters; Report sets point_id
  std::array<double, kPhases> exposed_s{kUnknown, kUnknown, kUnknown, kUnknown};
  std::array<double, kPhases> busy_s{kUnknown, kUnknown, kUnknown, kUnknown};
};

enum class FileState : std::uint8_t { running, complete, partial };

class Report {
 public:
  // Continues or begins the file at path. With "" the report stays in memory.
  static Result<Report> open(const std::string& path, Resume resume, const RunInfo& run);
  Report(Report&&) noexcept;
  Report& operator=(Report&&) noexcept;
  ~Report();

  // The last row with a key; null if there is none. done: it needs no further run.
  const PointRow* find(const std::string& key) const;
  bool done(const std::string& key) const;

  // returns the id of an equal input if there is one already
  Result<std::int32_t> add_input(InputRow input);
  Status add(std::span<Measurement> measurements);  // sets point_id
  Status add_event(std::string_view level, std::int64_t point_id, std::string_view text);
  Status save(FileState state);

 private:
  struct State;
  explicit Report(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

std::string utc_now();  // 2026-01-31T12:00:00Z
std::string new_uuid();

// Whether replace_file would find a place for the file. It leaves nothing there.
Status check_place(const std::string& path);

// Replaces the file at path by these bytes, or leaves it as it was.
Status replace_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace mq::bench
