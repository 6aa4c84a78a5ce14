// One clock for all ranks of a communicator, also where they are on several machines. Separate because it is
// an estimate, which only a synchronised start needs.
//
// On one machine every rank reads the same clock. Else hierarchical synchronisation in ceil(log2 p) rounds
// (HCA; Hunold and Carpen-Amarie, "On the impact of synchronizing clocks and processes on benchmarking MPI
// collectives", EuroMPI 2015): in round i, ranks 2^i .. 2^(i+1) - 1 each learn the clock of the rank 2^i
// below, which learned that of rank 0 before. A reading is the tightest of a few exchanges, of which half of
// the round trip bounds the error; offset and drift are a line through all readings so far.
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
  double drift() const { return drift_; }  // seconds in a second; 0 until the readings span 0.1 s

 private:
  std::vector<double> local_s_, ahead_s_;
  double mean_local_s_ = 0, mean_ahead_s_ = 0, drift_ = 0;
};

class GlobalClock {
 public:
  using LocalClock = double (*)();
  GlobalClock() = default;  // of ranks that read the same clock
  // Of any ranks: that of rank 0. Collective, takes 0.4 s for each round. comm must outlive it.
  explicit GlobalClock(MPI_Comm comm, LocalClock local = now_s);
  void adjust();  // one reading more, so that the drift is known better the longer it is used. Collective
  double at(double local_s) const { return local_s + fit_.ahead_s(local_s); }
  double now() const { return at(local_()); }
  double half_round_trip_s() const { return half_round_trip_s_; }  // of the tightest exchange; 0 on rank 0

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
