// What an empty result file consists of: attributes, tables and matrices, with the texts that explain them.
// The report fills them. Throws h5::Error.
#pragma once

#include <span>

#include "bench/hdf5.hpp"
#include "bench/report.hpp"

namespace mq::bench::layout {

inline constexpr const char* kTMax = "/samples/t_max_s";
inline constexpr const char* kTSpan = "/samples/t_span_s";
inline constexpr const char* kSkew = "/samples/skew_in_s";
inline constexpr const char* kValid = "/samples/valid";
inline constexpr const char* kOrder = "/samples/order";
inline constexpr const char* kTRank = "/samples/t_rank_s";
inline constexpr const char* kExposed = "/phases/exposed_s";
inline constexpr const char* kBusy = "/phases/busy_s";
inline constexpr const char* kCounters = "/counters";
inline constexpr std::size_t kMinColumns = 16, kMaxColumns = 1024;  // of a chunk of samples

void write_head(hid_t file, const RunInfo& run);
void write_skeleton(hid_t file);

// Called at the first point, when the number of repetitions is known, which sets the size of a chunk.
void create_matrices(hid_t file, std::size_t repetitions);

// Writes the times of every rank in n repetitions of one row. The first row with such times creates the
// matrix. Later rows without them are NaN.
void write_ranks(hid_t file, std::size_t row, std::span<const double> times, std::size_t n);

// Appends rows of /counters. The first ones create the table.
void write_counters(hid_t file, std::span<const CounterRow> rows);

}  // namespace mq::bench::layout
