// Clock and barrier of the measurement. Both are part of the method and stored with the results, so they are
// separate.
#pragma once

#include <mpi.h>

namespace mq::bench {

inline constexpr const char* kClockName = "CLOCK_MONOTONIC";
double now_s();               // the same on all ranks of one machine
double clock_resolution_s();  // the smallest step seen
double clock_cost_s();        // of one reading

// A dissemination barrier with ceil(log2 p) rounds (Hensgen, Finkel, Manber 1988). MPI_Barrier is not used,
// because its algorithm differs between libraries and sizes. Its ranks leave in different orders, which
// changes what is measured after it.
void dissemination_barrier(MPI_Comm comm);

}  // namespace mq::bench
