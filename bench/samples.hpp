// From what each rank saw of a call to what is known of the repetition: reduced over the ranks for each
// repetition, never after averaging.
#pragma once

#include <mpi.h>

#include <array>
#include <span>
#include <vector>

#include "bench/report.hpp"
#include "bench/start.hpp"

namespace mq::bench {

// One repetition on this rank, in seconds for one call.
struct Sample {
  double start_s = 0, end_s = 0;  // on the global clock, if there is one
  Began began = Began::in_time;
  std::array<double, kOther> phase_s{};
};

struct Repetition {
  double t_max = kUnknown;
  double t_span = kUnknown, skew_in = kUnknown;  // unknown without a global clock
  Began began = Began::in_time;                  // of the rank that began worst; only in_time is valid
  std::array<double, kPhases> phase_s{};         // of the critical rank; other is the rest of its time
};

// One for each sample, the same on all ranks. Collective.
std::vector<Repetition> over_ranks(std::span<const Sample> mine, bool global_clock, MPI_Comm comm);

// Rank 0: the time of every rank, rank by rank within a sample; empty on the others. Collective.
std::vector<double> of_every_rank(std::span<const Sample> mine, MPI_Comm comm);

}  // namespace mq::bench
