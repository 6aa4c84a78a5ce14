// The texts of all ranks at rank 0, when nobody knows whether all ranks will come: some may have been started
// without the report. Whoever waits longer than MPIQ_WATCHDOG seconds goes on without the others.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq {

struct Gathered {
  std::vector<std::string> texts;  // by rank, at rank 0; "" of a rank that did not come
  int came = 0;                    // ranks; on the others than rank 0 either all, or 1: rank 0 did not
  bool complete = false;           // all ranks came, and know it
};

// For the ranks of comm, on which no program's message is under way with one of the tags kGatherTag, +1, +2.
Result<Gathered> gather(MPI_Comm comm, const std::string& mine);
inline constexpr int kGatherTag = 32700;  // below the least MPI_TAG_UB

}  // namespace mq
