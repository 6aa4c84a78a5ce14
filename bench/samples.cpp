#include "bench/samples.hpp"

#include <algorithm>

namespace mq::bench {

void count_from_last_arrival(std::span<Sample> mine, MPI_Comm comm) {
  std::vector<double> last(mine.size());
  std::transform(mine.begin(), mine.end(), last.begin(), [](const Sample& s) { return s.start_s; });
  PMPI_Allreduce(MPI_IN_PLACE, last.data(), static_cast<int>(last.size()), MPI_DOUBLE, MPI_MAX, comm);
  for (std::size_t k = 0; k < mine.size(); ++k) mine[k].before_last_s = last[k] - mine[k].start_s;
}

std::vector<Repetition> over_ranks(std::span<const Sample> mine, bool global_clock, MPI_Comm comm) {
  struct TimeRank {
    double t;
    int rank;
  };
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  const std::size_t n = mine.size();
  const int count = static_cast<int>(n);
  std::vector<TimeRank> critical(n);
  std::vector<double> first(n), last_start(n), last_end(n), worst(n), computing(n), phases(kOther * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    critical[k] = {mine[k].time_s(), rank};
    first[k] = -mine[k].start_s;
    last_start[k] = mine[k].start_s;
    last_end[k] = mine[k].end_s;
    worst[k] = static_cast<double>(mine[k].began);
    computing[k] = mine[k].compute_s;
  }
  PMPI_Allreduce(MPI_IN_PLACE, critical.data(), count, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
  for (auto* series : {&first, &last_start, &last_end, &worst, &computing})
    PMPI_Allreduce(MPI_IN_PLACE, series->data(), count, MPI_DOUBLE, MPI_MAX, comm);
  for (std::size_t k = 0; k < n; ++k)
    if (critical[k].rank == rank)
      std::copy(mine[k].phase_s.begin(), mine[k].phase_s.end(), &phases[kOther * k]);
  PMPI_Allreduce(MPI_IN_PLACE, phases.data(), static_cast<int>(phases.size()), MPI_DOUBLE, MPI_SUM, comm);
  std::vector<Repetition> all(n);
  for (std::size_t k = 0; k < n; ++k) {
    Repetition& r = all[k];
    r.t_max = critical[k].t;
    r.compute_s = computing[k];
    r.began = static_cast<Began>(static_cast<int>(worst[k]));
    if (global_clock) {
      r.t_span = last_end[k] + first[k];
      r.skew_in = last_start[k] + first[k];
    }
    std::copy_n(&phases[kOther * k], kOther, r.phase_s.begin());
    r.phase_s[kOther] = r.t_max;
    for (std::size_t p = 0; p < kOther; ++p) r.phase_s[kOther] -= r.phase_s[p];
  }
  return all;
}

std::vector<double> of_every_rank(std::span<const Sample> mine, MPI_Comm comm) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  const std::size_t n = mine.size(), ranks = static_cast<std::size_t>(size);
  std::vector<double> times(n), all(rank == 0 ? n * ranks : 0), by_sample(all.size());
  std::transform(mine.begin(), mine.end(), times.begin(), [](const Sample& s) { return s.time_s(); });
  const int count = static_cast<int>(n);
  PMPI_Gather(times.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0, comm);
  for (std::size_t i = 0; i < all.size(); ++i) by_sample[i % n * ranks + i / n] = all[i];
  return by_sample;
}

}  // namespace mq::bench
