#include "bench/detour.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace mq::bench {
namespace {

constexpr int kReadings = 1000;  // to find the shortest step
constexpr double kDetour = 9;    // times the shortest step, as in the paper

}  // namespace

Detours find_detours(double seconds, double (*clock)()) {
  double shortest = std::numeric_limits<double>::infinity(), last = clock();
  for (int i = 0; i < kReadings; ++i) {
    const double now = clock();
    if (now > last) shortest = std::min(shortest, now - last);
    last = now;
  }
  Detours found{0, 0};
  const double start = last;
  while (last - start < seconds) {
    const double now = clock(), step = now - last;
    last = now;
    if (step <= kDetour * shortest) continue;
    found.share += step;
    found.longest_s = std::max(found.longest_s, step);
  }
  found.share /= last - start;
  return found;
}

Detours worst_of(const Detours& mine, MPI_Comm comm) {
  std::array<double, 2> both{mine.share, mine.longest_s};
  PMPI_Allreduce(MPI_IN_PLACE, both.data(), 2, MPI_DOUBLE, MPI_MAX, comm);
  return {both[0], both[1]};
}

}  // namespace mq::bench
