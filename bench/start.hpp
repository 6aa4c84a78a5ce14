// How the ranks start a repetition together (--sync). Separate because it is part of the method, stored with
// each row.
//
// - barrier: after a dissemination barrier.
// - round: rank 0 picks a time a little ahead on the global clock and broadcasts it, and every rank spins
//   until then (Hunold, Carpen-Amarie: ReproMPI). A rank that gets the time too late makes the repetition
//   invalid. The time ahead is a multiple of what a broadcast takes; rank 0 alone changes it.
// - none: back to back.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "bench/clock.hpp"

namespace mq::bench {

enum class Sync : std::uint8_t { barrier, round, none };
const char* name(Sync sync);         // the word of --sync
const char* description(Sync sync);  // for the result file

class Starter {
 public:
  // Collective. clock may be null unless sync is round; it and comm must outlive this.
  Starter(Sync sync, const GlobalClock* clock, MPI_Comm comm);
  // Returns when this rank is to begin; false if that was later than agreed. Collective.
  bool operator()() const;
  // Rank 0 hears what part of the last repetitions was late, and plans further ahead where it was much.
  void adapt(double late_fraction);
  double ahead_s() const { return ahead_s_; }

 private:
  double broadcast_time_s() const;
  Sync sync_;
  const GlobalClock* clock_;
  MPI_Comm comm_;
  int rank_ = 0;
  double ahead_s_ = 0;
};

}  // namespace mq::bench
