// Clock and barrier of the measurement. Separate because both are part of the method and stored with the
// results.
#pragma once

#include <mpi.h>

namespace mq::bench {

inline constexpr const char* kClockName = "CLOCK_MONOTONIC";
double now_s();               // the same on all ranks of one machine
double clock_resolution_s();  // smallest step seen
double clock_cost_s();        // of one reading

// Dissemination barrier, ceil(log2 p) rounds (Hensgen, Finkel, Manber 1988). Not MPI_Barrier: whose algorithm
// differs between libraries and sizes and leaves in different orders, which changes what is measured after
// it.
void dissemination_barrier(MPI_Comm comm);

}  // namespace mq::bench
