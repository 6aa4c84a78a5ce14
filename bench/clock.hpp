// One clock for all ranks of a communicator, also if they are on several machines. It is separate because it
// is an estimate, and only a synchronised start needs it.
//
// On one machine every rank reads the same clock. On several machines the clocks are synchronised
// hierarchically in ceil(log2 p) rounds (HCA; Hunold and Carpen-Amarie, "On the impact of synchronizing
// clocks and processes on benchmarking MPI collectives", EuroMPI 2015). In round i, each of the ranks 2^i ..
// 2^(i+1) - 1 learns the clock of the rank 2^i below, which has learned the clock of rank 0 before. A reading
// is the fastest of a few exchanges; half of its round trip bounds the error. Offset and drift are a line
// through all readings so far.
#pragma once

#include <mpi.h>

#include <vector>

#include "bench/sync.hpp"

namespace mq::bench {

// How far another clock is ahead of this one: a + b t, by least squares.
class ClockFit {
 public:
  void add(double local_s, double ahead_s);
  double ahead_s(double local_s) const { return mean_ahead_s_ + drift_ * (local_s - mean_local_s_); }
  double drift() const { return drift_; }  // seconds per second; 0 until the readings span 0.1 s

 private:
  std::vector<double> local_s_, ahead_s_;
  double mean_local_s_ = 0, mean_ahead_s_ = 0, drift_ = 0;
};

class GlobalClock {
 public:
  using LocalClock = double (*)();
  GlobalClock() = default;  // for ranks that read the same clock
  // For any ranks; it is the clock of rank 0. Collective, takes 0.4 s per round. comm must outlive it.
  explicit GlobalClock(MPI_Comm comm, LocalClock local = now_s);
  void adjust();  // takes one more reading, so that the drift becomes more exact over time. Collective
  double at(double local_s) const { return local_s + fit_.ahead_s(local_s); }
  double now() const { return at(local_()); }
  double half_round_trip_s() const { return half_round_trip_s_; }  // of the fastest exchange; 0 on rank 0

 private:
  void synchronise(int readings);
  void learn(int from, int readings);
  void teach(int to, int readings) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  LocalClock local_ = now_s;
  ClockFit fit_;
  double half_round_trip_s_ = 0;
};

}  // namespace mq::bench
