// Combines what each rank saw of a call into what is known of the repetition. Times are reduced over the
// ranks for each repetition, never after averaging.
#pragma once

#include <mpi.h>

#include <array>
#include <span>
#include <vector>

#include "bench/report.hpp"
#include "bench/start.hpp"

namespace mq::bench {

// One repetition on this rank, in seconds per call.
struct Sample {
  double start_s = 0, end_s = 0;  // on the global clock, if there is one
  Began began = Began::in_time;
  std::array<double, kOther> phase_s{};
  double compute_s = 0;      // the computation of the call alone
  double before_last_s = 0;  // from this rank's arrival to the last rank's (--arrival)
  // The time of the call. A rank that was done before the last one arrived has less than 0.
  double time_s() const { return end_s - start_s - before_last_s; }
};

struct Repetition {
  double t_max = kUnknown;
  double t_span = kUnknown, skew_in = kUnknown;  // unknown without a global clock
  Began began = Began::in_time;                  // of the rank with the worst start; only in_time is valid
  std::array<double, kPhases> phase_s{};         // of the critical rank; `other` is the rest of its time
  double compute_s = kUnknown;                   // maximum over ranks
};

// Makes times count from the arrival of the last rank, as the global clock has it. Without one they count
// from when it should have arrived, after its own start. Collective.
void count_from_last_arrival(std::span<Sample> mine, MPI_Comm comm);

// One repetition for each sample, the same on all ranks. Collective.
std::vector<Repetition> over_ranks(std::span<const Sample> mine, bool global_clock, MPI_Comm comm);

// On rank 0: the times of all ranks, rank by rank within a sample; empty on the others. Collective.
std::vector<double> of_every_rank(std::span<const Sample> mine, MPI_Comm comm);

}  // namespace mq::bench
