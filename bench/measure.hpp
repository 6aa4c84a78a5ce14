// Measures all methods of a point together. They are interleaved in blocks of one call each. So drift of the
// machine affects all of them alike, and each block gives a paired ratio. Rank 0 decides when to go on and
// when to stop, from times that are reduced over the ranks for each repetition. If each rank decided alone,
// they would deadlock.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/check.hpp"
#include "bench/counters.hpp"
#include "bench/energy.hpp"
#include "bench/points.hpp"
#include "bench/report.hpp"
#include "bench/workload.hpp"

namespace mq::bench {

// What happened to one method at one point. It is complete on rank 0.
struct Outcome {
  std::string status = "ok", note, stop_reason;
  double t_first_s = kUnknown;
  int warmup = 0;
  int batch = 1;  // calls timed together; the times are per call
  // On rank 0, with one element for each repetition. valid: 0 if a rank began too late.
  std::vector<double> t_max, t_span, skew_in;
  std::vector<std::uint8_t> valid;
  std::vector<std::uint32_t> order;
  std::vector<double> compute_s;  // with --overlap: the computation of the call alone, of the slowest rank
  std::vector<double> t_rank;     // with --keep-ranks: the times of all ranks, repetition by repetition
  std::array<std::vector<double>, kPhases> phase_s;  // of the critical rank; `other` is the rest of its time
  Energy energy;
  EventCounts counts;
  std::int64_t wire_bytes_max = -1, wire_bytes_sum = -1, scratch_bytes = -1, residual_bytes = -1;
  ResultErrors errors;
};

std::vector<double> valid_times(const Outcome&);  // t_max of the repetitions that count

struct Bench {  // what the points have in common
  const Options& options;
  bool one_clock;        // whether every rank of the point reads the same clock
  double clock_error_s;  // of a time, on rank 0: a step of the clock, or the cost of reading it twice
  double deadline_s;     // on rank 0's clock
  std::uint64_t order_seed;
  std::uint32_t* sequence;  // of the calls of this launch
  EnergyMeter* meter;       // of this rank; null: no energy is measured
  Counters* counters;       // of this rank; null: nothing is counted
};

// Collective over comm, which has the ranks of the point and of the workload.
std::vector<Outcome> measure(const Bench& bench, const Point& point, Workload& workload, MPI_Comm comm);

}  // namespace mq::bench
