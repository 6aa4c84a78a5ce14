// Rank 0 tells the ranks of the launch what to do next. A rank that waits for an order sleeps. If it spun in
// MPI_Barrier or MPI_Bcast on a machine with as many ranks as cores, it would slow down the ranks that
// measure.
#pragma once

#include <mpi.h>

namespace mq::bench {

inline constexpr int kNoMorePoints = -1;

void send_order(MPI_Comm launch, int order);  // rank 0, to all others
int wait_for_order(MPI_Comm launch);          // the others

// Sleeps until every rank has called it. It replaces a barrier that spins.
void gather_quietly(MPI_Comm launch);

}  // namespace mq::bench
