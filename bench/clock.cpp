#include "bench/clock.hpp"

#include <time.h>

#include <limits>

namespace mq::bench {
namespace {

constexpr int kClockTag = 3;
constexpr int kExchanges = 10;  // per reading
constexpr int kFirstReadings = 20;
constexpr long kPauseNs = 20'000'000;  // between readings, because drift shows only over time
// over a shorter span, errors of 1 us would look like a drift of more than 1e-5
constexpr double kLeastSpan_s = 0.1;
constexpr std::size_t kMostReadings = 1000;

}  // namespace

void ClockFit::add(double local_s, double ahead_s) {
  if (local_s_.size() == kMostReadings) {  // old readings go, because the drift changes with the temperature
    local_s_.erase(local_s_.begin());
    ahead_s_.erase(ahead_s_.begin());
  }
  local_s_.push_back(local_s);
  ahead_s_.push_back(ahead_s);
  // Times are relative to the first reading, because times since boot have 6 digits before the point.
  const auto n = static_cast<double>(local_s_.size());
  double t = 0, a = 0, tt = 0, ta = 0;
  for (std::size_t i = 0; i < local_s_.size(); ++i) {
    t += local_s_[i] - local_s_[0];
    a += ahead_s_[i] - ahead_s_[0];
  }
  t /= n;
  a /= n;
  for (std::size_t i = 0; i < local_s_.size(); ++i) {
    const double dt = local_s_[i] - local_s_[0] - t;
    tt += dt * dt;
    ta += dt * (ahead_s_[i] - ahead_s_[0] - a);
  }
  mean_local_s_ = local_s_[0] + t;
  mean_ahead_s_ = ahead_s_[0] + a;
  drift_ = local_s_.back() - local_s_.front() >= kLeastSpan_s ? ta / tt : 0;
}

GlobalClock::GlobalClock(MPI_Comm comm, LocalClock local) : comm_(comm), local_(local) {
  synchronise(kFirstReadings);
}

void GlobalClock::adjust() {
  if (comm_ != MPI_COMM_NULL) synchronise(1);
}

void GlobalClock::synchronise(int readings) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(comm_, &rank);
  PMPI_Comm_size(comm_, &size);
  for (int known = 1; known < size; known *= 2) {  // `known` ranks know the clock of rank 0
    if (rank >= known && rank < 2 * known) learn(rank - known, readings);
    if (rank < known && rank + known < size) teach(rank + known, readings);
  }
  dissemination_barrier(comm_);
}

void GlobalClock::learn(int from, int readings) {
  for (int r = 0; r < readings; ++r) {
    if (r > 0) {
      const timespec pause{0, kPauseNs};
      nanosleep(&pause, nullptr);
    }
    double shortest = std::numeric_limits<double>::infinity(), local_s = 0, ahead_s = 0;
    for (int i = 0; i < kExchanges; ++i) {
      double theirs = 0;
      const double asked = local_();
      PMPI_Send(nullptr, 0, MPI_BYTE, from, kClockTag, comm_);
      PMPI_Recv(&theirs, 1, MPI_DOUBLE, from, kClockTag, comm_, MPI_STATUS_IGNORE);
      const double answered = local_();
      if (answered - asked >= shortest) continue;
      shortest = answered - asked;
      local_s = 0.5 * (asked + answered);
      ahead_s = theirs - local_s;
    }
    fit_.add(local_s, ahead_s);
    if (half_round_trip_s_ == 0 || 0.5 * shortest < half_round_trip_s_) half_round_trip_s_ = 0.5 * shortest;
  }
}

void GlobalClock::teach(int to, int readings) const {
  for (int i = 0; i < readings * kExchanges; ++i) {
    PMPI_Recv(nullptr, 0, MPI_BYTE, to, kClockTag, comm_, MPI_STATUS_IGNORE);
    const double mine = now();
    PMPI_Send(&mine, 1, MPI_DOUBLE, to, kClockTag, comm_);
  }
}

}  // namespace mq::bench
