// The compound rows of a result file as structs, each with the table of its columns. They are separate from
// the file format, so that code that fills a row sees no HDF5. Unknown values are NaN, -1 or "", never 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace mq::bench {

// Text of fixed length as HDF5 stores it: padded with zeros, cut if it is too long, not always terminated.
template <std::size_t N>
struct Text {
  char data[N] = {};
  constexpr Text() = default;
  constexpr Text(std::string_view text) { std::copy_n(text.data(), std::min(N, text.size()), data); }
  Text(const std::string& text) : Text(std::string_view(text)) {}
  constexpr Text(const char* text) : Text(std::string_view(text)) {}
  std::string str() const { return std::string(data, std::find(data, data + N, '\0')); }
};

enum class ColumnType : std::uint8_t {
  i8,
  i16,
  i32,
  i64,
  u64,
  f64,
  text
};  // the width in bits, where H5T and C count it so

struct Column {
  const char* name;
  ColumnType type;
  std::size_t offset, bytes;  // of the member
  const char* unit;           // "" if it has none
};

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// One point with one method. Names, order and types are those of schema version 1.
struct PointRow {
  std::int64_t point_id = -1;
  Text<32> key;
  Text<12> status;
  Text<12> grade;
  Text<32> collective, algorithm, compressor;
  Text<96> comp_params;
  Text<8> dtype, op, memory, place;
  Text<48> layer;
  Text<32> model;
  std::int32_t ranks = -1, nodes = -1, ranks_per_node = -1;
  std::int64_t count = -1, bytes = -1;
  std::int32_t input_id = -1;
  double ratio_target = kUnknown, ratio_achieved = kUnknown;
  Text<8> buffers, sync;
  Text<12> mode;
  std::int32_t launch = -1;
  std::uint64_t block_order_seed = 0;
  std::int32_t warmup = -1, reps = -1, batch = -1, invalid_reps = -1;
  Text<12> stop_reason;
  double t_first_s = kUnknown, t_median_s = kUnknown, t_ci_lo_s = kUnknown, t_ci_hi_s = kUnknown,
         t_min_s = kUnknown, t_mean_s = kUnknown, t_p95_s = kUnknown, t_p99_s = kUnknown, t_mad_s = kUnknown;
  std::int32_t outliers_mild = -1, outliers_severe = -1;
  double lag1 = kUnknown;
  double algbw_Bps = kUnknown, busbw_Bps = kUnknown, wirebw_Bps = kUnknown;
  std::int64_t wire_bytes_max = -1, wire_bytes_sum = -1, scratch_bytes = -1;
  double speedup = kUnknown, speedup_lo = kUnknown, speedup_hi = kUnknown;
  Text<32> base_key;
  double err_rel_l2 = kUnknown, err_max_abs = kUnknown, snr_db = kUnknown, cosine = kUnknown;
  std::int64_t n_wrong = -1;
  std::int8_t replicas_equal = -1, oversubscribed = -1, throttled = -1;
  Text<32> start_utc;
  double wall_s = kUnknown;
  Text<96> note;
  // Columns that were appended later to those of the schema's first version.
  double t_p5_s = kUnknown;
  std::int8_t feedback = -1;
  std::int32_t layers_alike = -1;
  std::int64_t residual_bytes = -1;
  Text<128> method;
  Text<48> link;
  std::int64_t matrix_side = -1;
};

struct EnvRow {
  Text<64> name;
  Text<256> value;
};

struct NodeRow {
  std::int32_t node_index = -1;
  Text<64> host;
  Text<96> cpu_model;
  std::int16_t sockets = -1;
  std::int32_t cores = -1;
  std::int8_t smt = -1;
  std::int64_t mem_B = -1;
  Text<64> kernel;
  Text<16> governor, thp;
  std::int8_t aslr = -1;
  std::int64_t llc_B = -1;
  double load1 = kUnknown;
};

struct RankRow {
  std::int32_t rank = -1, node_index = -1, local_rank = -1, pid = -1, cpu_first = -1, cpu_count = -1;
  std::int16_t numa = -1;
  Text<48> gpu_uuid;
};

// A GPU of some rank. The table exists only if the vectors are in the memory of GPUs.
struct GpuRow {
  Text<48> gpu_uuid;
  std::int32_t node_index = -1;
  Text<64> name;
  Text<32> driver;                 // of the kernel
  std::int32_t cuda_version = -1;  // the version that the driver supports: 13000 is 13.0
  Text<8> capability;
  std::int32_t multiprocessors = -1, clock_sm_kHz = -1, clock_mem_kHz = -1;  // the highest clocks
  std::int64_t mem_B = -1, l2_B = -1;
  std::int8_t ecc = -1;
};

struct InputRow {
  std::int32_t input_id = -1;
  Text<32> distribution;
  Text<96> params;
  std::uint64_t seed = 0;
  double rho = kUnknown, entropy_bits = kUnknown, zero_frac = kUnknown;
  std::int16_t exp_min = 0, exp_max = 0;
  Text<256> path;
};

struct EventRow {
  Text<32> utc;
  Text<8> level;
  std::int64_t point_id = -1;
  Text<256> text;
};

template <class Row>
std::span<const Column> columns_of();

}  // namespace mq::bench
