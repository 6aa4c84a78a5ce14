#include "bench/sync.hpp"

#include <time.h>

#include <algorithm>
#include <limits>

namespace mq::bench {
namespace {

constexpr int kBarrierTag = 1;
constexpr int kReadings = 1000;

}  // namespace

double now_s() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double clock_resolution_s() {
  double smallest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kReadings; ++i) {
    const double start = now_s();
    double next = now_s();
    while (next == start) next = now_s();
    smallest = std::min(smallest, next - start);
  }
  return smallest;
}

double clock_cost_s() {
  const double start = now_s();
  for (int i = 0; i < kReadings; ++i) (void)now_s();
  return (now_s() - start) / kReadings;
}

void dissemination_barrier(MPI_Comm comm) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  for (int step = 1; step < size; step *= 2)
    PMPI_Sendrecv(nullptr, 0, MPI_BYTE, (rank + step) % size, kBarrierTag, nullptr, 0, MPI_BYTE,
                  (rank - step + size) % size, kBarrierTag, comm, MPI_STATUS_IGNORE);
}

}  // namespace mq::bench
