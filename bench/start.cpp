#include "bench/start.hpp"

#include <algorithm>
#include <vector>

#include "bench/stats.hpp"

namespace mq::bench {
namespace {

constexpr int kBroadcasts = 20;
constexpr double kMargin = 4;            // in broadcast times: from the choice of a start time to the start
constexpr double kLeastAhead_s = 10e-6;  // a single rank needs no broadcast, but some time to read its clock
constexpr double kMostAhead_s = 0.1;     // more does not help, because a rank is then without a processor
constexpr double kMostBehind_s = 1e-6;   // many times the cost of reading the clock
constexpr double kToleratedLate = 0.1;

}  // namespace

const char* name(Sync sync) {
  return sync == Sync::barrier ? "barrier" : sync == Sync::round ? "round" : "none";
}

const char* description(Sync sync) {
  switch (sync) {
    case Sync::barrier: break;
    case Sync::round: return "round: at a time of rank 0's choice on a global clock; late ones are invalid";
    case Sync::none: return "none: back to back";
  }
  return "barrier: dissemination on MPI_Sendrecv";
}

Starter::Starter(Sync sync, const GlobalClock* clock, MPI_Comm comm)
    : sync_(sync), clock_(clock), comm_(comm) {
  PMPI_Comm_rank(comm, &rank_);
  if (sync == Sync::round) ahead_s_ = std::clamp(kMargin * broadcast_time_s(), kLeastAhead_s, kMostAhead_s);
}

// On rank 0: the median of the time until the last rank has received what rank 0 sends.
double Starter::broadcast_time_s() const {
  std::vector<double> times;
  for (int i = 0; i < kBroadcasts; ++i) {
    dissemination_barrier(comm_);
    double sent = clock_->now();
    PMPI_Bcast(&sent, 1, MPI_DOUBLE, 0, comm_);
    const double took = clock_->now() - sent;
    double longest = 0;
    PMPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, comm_);
    times.push_back(longest);
  }
  return summarize(times).median;
}

Began Starter::operator()() const {
  if (sync_ == Sync::none) return Began::in_time;
  dissemination_barrier(comm_);
  if (sync_ == Sync::barrier) return Began::in_time;
  double start = rank_ == 0 ? clock_->now() + ahead_s_ : 0;
  PMPI_Bcast(&start, 1, MPI_DOUBLE, 0, comm_);
  double now = clock_->now();
  if (now > start) return Began::late;
  while (now < start) now = clock_->now();
  return now <= start + kMostBehind_s ? Began::in_time : Began::held_up;
}

void Starter::adapt(double late_fraction) {
  if (late_fraction > kToleratedLate) ahead_s_ = std::min(2 * ahead_s_, kMostAhead_s);
}

}  // namespace mq::bench
