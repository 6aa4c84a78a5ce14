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
  double compute_s = 0;  // the computation of the call alone
};

struct Repetition {
  double t_max = kUnknown;
  double t_span = kUnknown, skew_in = kUnknown;  // unknown without a global clock
  Began began = Began::in_time;                  // of the rank with the worst start; only in_time is valid
  std::array<double, kPhases> phase_s{};         // of the critical rank; `other` is the rest of its time
  double compute_s = kUnknown;                   // maximum over ranks
};

// One repetition for each sample, the same on all ranks. Collective.
std::vector<Repetition> over_ranks(std::span<const Sample> mine, bool global_clock, MPI_Comm comm);

// On rank 0: the times of all ranks, rank by rank within a sample; empty on the others. Collective.
std::vector<double> of_every_rank(std::span<const Sample> mine, MPI_Comm comm);

}  // namespace mq::bench
