#include "bench/rows.hpp"

#include <array>
#include <type_traits>

namespace mq::bench {
namespace {

template <class T>
constexpr ColumnType column_type() {
  if constexpr (std::is_same_v<T, std::int8_t>) return ColumnType::i8;
  if constexpr (std::is_same_v<T, std::int16_t>) return ColumnType::i16;
  if constexpr (std::is_same_v<T, std::int32_t>) return ColumnType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ColumnType::i64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ColumnType::u64;
  if constexpr (std::is_same_v<T, double>) return ColumnType::f64;
  return ColumnType::text;
}

// The name of a column is that of the member, so that it is written only once.
#define MQ_COLUMN(row, member, unit) \
  Column { #member, column_type < decltype(row::member)>(), offsetof(row, member), sizeof(row::member), unit }

constexpr std::array kPointColumns{
    MQ_COLUMN(PointRow, point_id, ""),
    MQ_COLUMN(PointRow, key, ""),
    MQ_COLUMN(PointRow, status, ""),
    MQ_COLUMN(PointRow, grade, ""),
    MQ_COLUMN(PointRow, collective, ""),
    MQ_COLUMN(PointRow, algorithm, ""),
    MQ_COLUMN(PointRow, compressor, ""),
    MQ_COLUMN(PointRow, comp_params, ""),
    MQ_COLUMN(PointRow, dtype, ""),
    MQ_COLUMN(PointRow, op, ""),
    MQ_COLUMN(PointRow, memory, ""),
    MQ_COLUMN(PointRow, place, ""),
    MQ_COLUMN(PointRow, layer, ""),
    MQ_COLUMN(PointRow, model, ""),
    MQ_COLUMN(PointRow, ranks, ""),
    MQ_COLUMN(PointRow, nodes, ""),
    MQ_COLUMN(PointRow, ranks_per_node, ""),
    MQ_COLUMN(PointRow, count, "elements"),
    MQ_COLUMN(PointRow, bytes, "B"),
    MQ_COLUMN(PointRow, input_id, ""),
    MQ_COLUMN(PointRow, ratio_target, ""),
    MQ_COLUMN(PointRow, ratio_achieved, ""),
    MQ_COLUMN(PointRow, buffers, ""),
    MQ_COLUMN(PointRow, sync, ""),
    MQ_COLUMN(PointRow, mode, ""),
    MQ_COLUMN(PointRow, launch, ""),
    MQ_COLUMN(PointRow, block_order_seed, ""),
    MQ_COLUMN(PointRow, warmup, ""),
    MQ_COLUMN(PointRow, reps, ""),
    MQ_COLUMN(PointRow, batch, ""),
    MQ_COLUMN(PointRow, invalid_reps, ""),
    MQ_COLUMN(PointRow, stop_reason, ""),
    MQ_COLUMN(PointRow, t_first_s, "s"),
    MQ_COLUMN(PointRow, t_median_s, "s"),
    MQ_COLUMN(PointRow, t_ci_lo_s, "s"),
    MQ_COLUMN(PointRow, t_ci_hi_s, "s"),
    MQ_COLUMN(PointRow, t_min_s, "s"),
    MQ_COLUMN(PointRow, t_mean_s, "s"),
    MQ_COLUMN(PointRow, t_p95_s, "s"),
    MQ_COLUMN(PointRow, t_p99_s, "s"),
    MQ_COLUMN(PointRow, t_mad_s, "s"),
    MQ_COLUMN(PointRow, outliers_mild, ""),
    MQ_COLUMN(PointRow, outliers_severe, ""),
    MQ_COLUMN(PointRow, lag1, ""),
    MQ_COLUMN(PointRow, algbw_Bps, "B/s"),
    MQ_COLUMN(PointRow, busbw_Bps, "B/s"),
    MQ_COLUMN(PointRow, wirebw_Bps, "B/s"),
    MQ_COLUMN(PointRow, wire_bytes_max, "B"),
    MQ_COLUMN(PointRow, wire_bytes_sum, "B"),
    MQ_COLUMN(PointRow, scratch_bytes, "B"),
    MQ_COLUMN(PointRow, speedup, ""),
    MQ_COLUMN(PointRow, speedup_lo, ""),
    MQ_COLUMN(PointRow, speedup_hi, ""),
    MQ_COLUMN(PointRow, base_key, ""),
    MQ_COLUMN(PointRow, err_rel_l2, ""),
    MQ_COLUMN(PointRow, err_max_abs, ""),
    MQ_COLUMN(PointRow, snr_db, "dB"),
    MQ_COLUMN(PointRow, cosine, ""),
    MQ_COLUMN(PointRow, n_wrong, "elements"),
    MQ_COLUMN(PointRow, replicas_equal, ""),
    MQ_COLUMN(PointRow, oversubscribed, ""),
    MQ_COLUMN(PointRow, throttled, ""),
    MQ_COLUMN(PointRow, start_utc, ""),
    MQ_COLUMN(PointRow, wall_s, "s"),
    MQ_COLUMN(PointRow, note, ""),
    MQ_COLUMN(PointRow, t_p5_s, "s"),
    MQ_COLUMN(PointRow, feedback, ""),
    MQ_COLUMN(PointRow, layers_alike, ""),
    MQ_COLUMN(PointRow, residual_bytes, "B"),
    MQ_COLUMN(PointRow, method, ""),
    MQ_COLUMN(PointRow, link, ""),
    MQ_COLUMN(PointRow, matrix_side, "elements"),
};

constexpr std::array kEnvColumns{MQ_COLUMN(EnvRow, name, ""), MQ_COLUMN(EnvRow, value, "")};

constexpr std::array kNodeColumns{
    MQ_COLUMN(NodeRow, node_index, ""), MQ_COLUMN(NodeRow, host, ""),   MQ_COLUMN(NodeRow, cpu_model, ""),
    MQ_COLUMN(NodeRow, sockets, ""),    MQ_COLUMN(NodeRow, cores, ""),  MQ_COLUMN(NodeRow, smt, ""),
    MQ_COLUMN(NodeRow, mem_B, "B"),     MQ_COLUMN(NodeRow, kernel, ""), MQ_COLUMN(NodeRow, governor, ""),
    MQ_COLUMN(NodeRow, thp, ""),        MQ_COLUMN(NodeRow, aslr, ""),   MQ_COLUMN(NodeRow, llc_B, "B"),
    MQ_COLUMN(NodeRow, load1, ""),
};

constexpr std::array kRankColumns{
    MQ_COLUMN(RankRow, rank, ""), MQ_COLUMN(RankRow, node_index, ""), MQ_COLUMN(RankRow, local_rank, ""),
    MQ_COLUMN(RankRow, pid, ""),  MQ_COLUMN(RankRow, cpu_first, ""),  MQ_COLUMN(RankRow, cpu_count, ""),
    MQ_COLUMN(RankRow, numa, ""), MQ_COLUMN(RankRow, gpu_uuid, ""),
};

constexpr std::array kGpuColumns{
    MQ_COLUMN(GpuRow, gpu_uuid, ""),
    MQ_COLUMN(GpuRow, node_index, ""),
    MQ_COLUMN(GpuRow, name, ""),
    MQ_COLUMN(GpuRow, driver, ""),
    MQ_COLUMN(GpuRow, cuda_version, ""),
    MQ_COLUMN(GpuRow, capability, ""),
    MQ_COLUMN(GpuRow, multiprocessors, ""),
    MQ_COLUMN(GpuRow, clock_sm_kHz, "kHz"),
    MQ_COLUMN(GpuRow, clock_mem_kHz, "kHz"),
    MQ_COLUMN(GpuRow, mem_B, "B"),
    MQ_COLUMN(GpuRow, l2_B, "B"),
    MQ_COLUMN(GpuRow, ecc, ""),
};

constexpr std::array kInputColumns{
    MQ_COLUMN(InputRow, input_id, ""),  MQ_COLUMN(InputRow, distribution, ""),
    MQ_COLUMN(InputRow, params, ""),    MQ_COLUMN(InputRow, seed, ""),
    MQ_COLUMN(InputRow, rho, ""),       MQ_COLUMN(InputRow, entropy_bits, "bit"),
    MQ_COLUMN(InputRow, zero_frac, ""), MQ_COLUMN(InputRow, exp_min, ""),
    MQ_COLUMN(InputRow, exp_max, ""),   MQ_COLUMN(InputRow, path, ""),
};

constexpr std::array kEventColumns{MQ_COLUMN(EventRow, utc, ""), MQ_COLUMN(EventRow, level, ""),
                                   MQ_COLUMN(EventRow, point_id, ""), MQ_COLUMN(EventRow, text, "")};

#undef MQ_COLUMN

}  // namespace

template <>
std::span<const Column> columns_of<PointRow>() {
  return kPointColumns;
}
template <>
std::span<const Column> columns_of<EnvRow>() {
  return kEnvColumns;
}
template <>
std::span<const Column> columns_of<NodeRow>() {
  return kNodeColumns;
}
template <>
std::span<const Column> columns_of<RankRow>() {
  return kRankColumns;
}
template <>
std::span<const Column> columns_of<GpuRow>() {
  return kGpuColumns;
}
template <>
std::span<const Column> columns_of<InputRow>() {
  return kInputColumns;
}
template <>
std::span<const Column> columns_of<EventRow>() {
  return kEventColumns;
}

}  // namespace mq::bench
