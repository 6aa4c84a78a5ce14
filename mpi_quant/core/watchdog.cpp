#include "mpi_quant/core/watchdog.hpp"

#include <sched.h>

#include <cstdio>
#include <limits>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/core/in_flight.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/shared_time.hpp"

namespace mq {
namespace {

void say_where(MPI_Comm comm, int seconds, const char* why, const char* question) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0, rank = 0, size = 0;
  (void)PMPI_Comm_get_name(comm, name, &length);
  (void)PMPI_Comm_rank(comm, &rank);
  (void)PMPI_Comm_size(comm, &size);
  (void)std::fprintf(stderr,
                     "mpi_quant: rank %d of %d of communicator \"%s\" has waited %d s for others %s; if they "
                     "never come: %s\n",
                     rank, size, name, seconds, why, question);
}

}  // namespace

void say_unfinished(std::size_t requests) {
  int rank = 0;
  (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (env().ok() && env()->watchdog == 0) return;
  (void)std::fprintf(stderr,
                     "mpi_quant: rank %d: %zu request%s not completed before MPI_Finalize (MPIQ_Wait, "
                     "MPIQ_Test); the result is undefined\n",
                     rank, requests, requests == 1 ? " was" : "s were");
}

Result<bool> wait_watched(MPI_Comm comm, MPI_Request& request, const char* why, const char* question,
                          double patience_s) {
  constexpr int kSpins = 200;
  const InLibrary in_library;
  Share share;
  share.begin();
  const int limit = env().ok() ? env()->watchdog : 0;
  const double start_s = now_s();
  bool said = limit == 0;
  for (int tests = 0;; ++tests) {
    int done = 0;
    MQ_TRY(mpi_status(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done) return true;
    (void)advance_requests();  // a late rank may be waiting for one of these calls
    if (tests < kSpins) continue;
    sched_yield();
    const double waited_s = now_s() - start_s;
    if (!said && waited_s > limit) {
      say_where(comm, limit, why, question);
      said = true;
    }
    if (waited_s > patience_s) return false;
  }
}

Status wait_watched(MPI_Comm comm, MPI_Request& request, const char* why, const char* question) {
  return wait_watched(comm, request, why, question, std::numeric_limits<double>::infinity()).status();
}

Status wait_in_call(MPI_Comm comm, MPI_Request& request) {
  return wait_watched(comm, request, "in a collective call", "are all ranks in it?");
}

}  // namespace mq
