// The agreement for functions that are collective but not on the critical path. If all is well it takes one
// reduction; otherwise as many messages as it takes to tell every rank the reason. (agree.hpp has the fast
// agreement of an allreduce.) It uses collectives only, so it may run on the program's own communicator.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Completes the request of a reduction, after which all ranks are known to be in it. In a call of a program
// pass wait_in_call of watchdog.hpp: another rank may come only after a call in flight, which this rank has
// to advance.
using WaitForRanks = Status (*)(MPI_Comm, MPI_Request&);
Status wait_for_ranks(MPI_Comm comm, MPI_Request& request);

// The least and the greatest of what the ranks bring.
struct Extremes {
  std::uint64_t least = 0, greatest = 0;
  bool same() const { return least == greatest; }
};

// Collective over comm. Finds the extremes of each value in one exact reduction. extremes has as many
// elements as
// mine: at most kMostExtremes.
inline constexpr std::size_t kMostExtremes = 4;
Status find_extremes(MPI_Comm comm, std::span<const std::uint64_t> mine, std::span<Extremes> extremes,
                     WaitForRanks wait);

// Collective over comm. Ok if no rank has a local error and all bring the same facts: a list of lines, each
// with a null character at its end. Otherwise an error on every rank. A rank with a local error gets its own;
// the others get the error of the first such rank. If facts differ, the error shows the first line that does,
// as it is on rank 0 and on the first rank that has another one.
Status collective_check(MPI_Comm comm, const Status& local_error, std::string_view facts,
                        WaitForRanks wait = &wait_for_ranks);

}  // namespace mq
