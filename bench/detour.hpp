// How much time other work takes from a rank: it reads its clock in a loop, and a step that is much longer
// than the shortest is a detour (Hoefler et al.: Characterizing the influence of system noise on large-scale
// applications by simulation, SC 2010). It is measured before each point, beside whose times it stands.
#pragma once

#include <mpi.h>

#include "bench/rows.hpp"
#include "bench/sync.hpp"

namespace mq::bench {

struct Detours {
  double share = kUnknown;  // of the time
  double longest_s = kUnknown;
};

// Of this rank, in so many seconds from now on.
Detours find_detours(double seconds, double (*clock)() = now_s);

// The largest numbers of all ranks. Collective.
Detours worst_of(const Detours& mine, MPI_Comm comm);

}  // namespace mq::bench
