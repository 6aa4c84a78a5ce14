#include "bench/file_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/sync.hpp"
#include "mpi_quant/base/json.hpp"

namespace mq::bench::layout {
namespace {

constexpr std::array kPhaseNames{Text<24>("encode"), Text<24>("wait"), Text<24>("decode"), Text<24>("other")};

void write_formulas(hid_t table) {
  const auto note = [&](const char* name, const char* text) {
    h5::write_attribute(table, name, std::string(text));
  };
  note("t_median_s.formula",
       "median over valid repetitions of t_max = max over ranks of the seconds in the call; interval: exact "
       "binomial 95 % by order statistics; quantiles by nearest rank");
  note("algbw_Bps.formula", "bytes / t_median_s");
  note(
      "busbw_Bps.formula",
      "algbw * 2 (ranks - 1) / ranks, of reduce_scatter and allgather algbw (ranks - 1) / ranks, of bcast and "
      "reduce algbw; effective for compressed methods: it may exceed the wire");
  note("wirebw_Bps.formula", "wire_bytes_max / t_median_s");
  note("wire_bytes_max.formula",
       "frames sent in one call, headers included, by the busiest rank; _sum: by all; -1: unknown, "
       "as for the MPI library's own reduction");
  note("ratio_target.formula", "bytes / hard upper bound of the encoded vector; 1 for mpi");
  note(
      "ratio_achieved.formula",
      "2 (ranks - 1) bytes / wire_bytes_sum, of reduce_scatter, allgather, bcast and reduce (ranks - 1) bytes / "
      "wire_bytes_sum: what a bandwidth-optimal uncompressed call sends in all, over what was sent; 1 for mpi "
      "by definition");
  note("speedup.formula",
       "exp(median over blocks of ln t_max(baseline) - ln t_max), measured interleaved; interval: sign "
       "test at 95 %, Bonferroni over the methods of the point");
  note(
      "err_rel_l2.formula",
      "|x - s| / |s| with s the sum in extended precision from the generator, of allgather the vector of all "
      "parts, of bcast the vector of rank 0; x: the first call, on an empty residual, or of auto, which learns, the last one. snr_db = -20 lg of it");
  note("n_wrong.formula",
       "exact and lossless methods: elements beyond gamma_m sum|x_r| (m = ranks - 1, f64: ranks); lossy: "
       "elements not finite");
  note("status.meaning",
       "invalid: wrong elements, replicas that differ, a broken guard or a changed send buffer");
}

std::string units_json(std::span<const Column> columns) {
  std::string text;
  for (const Column& c : columns)
    if (*c.unit != '\0')
      text += fmt::format("{}{}:{}", text.empty() ? "" : ",", json_quote(c.name), json_quote(c.unit));
  return "{" + text + "}";
}

template <class Row>
void create_rows(hid_t file, const char* path, std::span<const Row> rows) {
  h5::create_table(file, path, columns_of<Row>());
  h5::append(file, path, rows);
}

void describe(hid_t file, const char* path, const char* text, const char* unit) {
  const h5::Handle matrix(H5Dopen2(file, path, H5P_DEFAULT), H5Dclose, path);
  h5::write_attribute(matrix, "long_name", std::string(text));
  if (*unit != '\0') h5::write_attribute(matrix, "units", std::string(unit));
}

}  // namespace

void write_head(hid_t file, const RunInfo& run) {
  h5::write_attribute(file, "schema_name", std::string(kSchemaName));
  h5::write_attribute(file, "schema_version", kSchemaVersion);
  h5::write_attribute(file, "uuid", new_uuid());
  h5::write_attribute(file, "created_utc", utc_now());
  h5::write_attribute(file, "harness_version", run.harness_version);
  h5::write_attribute(file, "git_commit", run.git_commit);
  h5::write_attribute(file, "git_dirty", static_cast<std::uint8_t>(run.git_dirty));
  const h5::Handle group = h5::group(file, "/run");
  h5::write_attribute(group, "command_line", run.command_line);
  h5::write_attribute(group, "config_json", run.config_json);
  h5::write_attribute(group, "seed", run.seed);
  h5::write_attribute(group, "sync_method", run.sync_method);
  h5::write_attribute(group, "clock", std::string(kClockName));
  h5::write_attribute(group, "clock_resolution_s", run.clock_resolution_s);
  h5::write_attribute(group, "clock_cost_s", run.clock_cost_s);
  h5::write_attribute(group, "barrier_skew_s", run.barrier_skew_s);
  h5::write_attribute(group, "launch_uuid", new_uuid());
  h5::write_attribute(group, "mpi_library", run.mpi_library);
  h5::write_attribute(group, "build", run.build);
  h5::write_attribute(group, "isa", run.isa);
  unsigned major = 0, minor = 0, release = 0;
  h5::check(H5get_libversion(&major, &minor, &release), "HDF5 version");
  h5::write_attribute(group, "hdf5_version", fmt::format("{}.{}.{}", major, minor, release));
  create_rows<EnvRow>(file, "/run/env", run.env);
  create_rows<NodeRow>(file, "/run/nodes", run.nodes);
  create_rows<RankRow>(file, "/run/ranks", run.ranks);
  if (!run.gpus.empty()) create_rows<GpuRow>(file, "/run/gpus", run.gpus);
}

void write_skeleton(hid_t file) {
  create_rows<PointRow>(file, "/points", {});
  create_rows<InputRow>(file, "/inputs", {});
  create_rows<EventRow>(file, "/events", {});
  const h5::Handle points(H5Dopen2(file, "/points", H5P_DEFAULT), H5Dclose, "/points");
  h5::write_attribute(points, "units", units_json(columns_of<PointRow>()));
  write_formulas(points);
  const h5::Handle samples = h5::group(file, "/samples"), phases = h5::group(file, "/phases");
  h5::create_scale(file, "/samples/point");
  h5::create_scale(file, "/samples/rep");
}

void create_matrices(hid_t file, std::size_t repetitions) {
  const std::size_t columns = std::clamp(repetitions, kMinColumns, kMaxColumns);
  const double nan = kUnknown;
  const std::uint32_t no_order = 0xffffffffU;
  const std::uint8_t invalid = 0;
  for (const char* path : {kTMax, kTSpan, kSkew})
    h5::create_matrix(file, path, H5T_IEEE_F64LE, columns, &nan, H5T_NATIVE_DOUBLE);
  h5::create_matrix(file, kOrder, H5T_STD_U32LE, columns, &no_order, H5T_NATIVE_UINT32);
  h5::create_matrix(file, kValid, H5T_STD_U8LE, columns, &invalid, H5T_NATIVE_UINT8);
  describe(file, kTMax, "maximum over ranks of the time in the call, of a batch divided by its calls", "s");
  describe(file, kTSpan, "last end minus first start on one clock; NaN without one", "s");
  describe(file, kSkew, "last start minus first start; NaN without a clock for all ranks", "s");
  describe(file, kOrder, "sequence number of the call in this launch", "");
  describe(file, kValid, "1: counts, 0: some rank began too late, or no such repetition", "");
  for (const char* path : {kTMax, kTSpan, kSkew, kOrder, kValid}) {
    h5::attach_scale(file, path, "/samples/point", 0);
    h5::attach_scale(file, path, "/samples/rep", 1);
  }
  const Column name{"name", ColumnType::text, 0, sizeof(Text<24>), ""};
  h5::create_table(file, "/phases/phase", {&name, 1});
  h5::append_rows(file, "/phases/phase", {&name, 1}, kPhaseNames.data(), sizeof(Text<24>), kPhases);
  for (const char* path : {kExposed, kBusy})
    h5::create_matrix(file, path, H5T_IEEE_F64LE, kPhases, &nan, H5T_NATIVE_DOUBLE);
  describe(file, kExposed,
           "medians over repetitions of the critical rank, whose phases add up to its time in each; columns: "
           "/phases/phase",
           "s");
  describe(file, kBusy, "the same with what is hidden behind other phases; NaN: not known", "s");
}

void write_ranks(hid_t file, std::size_t row, std::span<const double> times, std::size_t n) {
  if (times.empty() || n == 0) {
    if (h5::exists(file, kTRank)) h5::write_matrix_row(file, kTRank, row, H5T_NATIVE_DOUBLE, nullptr, 0, 1);
    return;
  }
  const std::size_t ranks = times.size() / n;
  if (!h5::exists(file, kTRank)) {
    const double nan = kUnknown;
    h5::create_matrix(file, kTRank, H5T_IEEE_F64LE, std::clamp(n, kMinColumns, kMaxColumns), &nan,
                      H5T_NATIVE_DOUBLE, ranks);
    describe(file, kTRank, "time in the call of each rank; NaN for ranks that the point has not", "s");
    h5::create_scale(file, "/samples/rank");
    h5::attach_scale(file, kTRank, "/samples/point", 0);
    h5::attach_scale(file, kTRank, "/samples/rep", 1);
    h5::attach_scale(file, kTRank, "/samples/rank", 2);
  }
  h5::write_matrix_row(file, kTRank, row, H5T_NATIVE_DOUBLE, times.data(), n, ranks);
  h5::grow_scale(file, "/samples/rank", ranks);
}

void write_counters(hid_t file, std::span<const CounterRow> rows) {
  if (rows.empty()) return;
  if (!h5::exists(file, kCounters)) h5::create_table(file, kCounters, columns_of<CounterRow>());
  h5::append(file, kCounters, rows);
}

}  // namespace mq::bench::layout
