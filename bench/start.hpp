// How the ranks start a repetition together (--sync). Separate because it is part of the method, stored with
// each row.
//
// - barrier: after a dissemination barrier.
// - round: rank 0 picks a time a little ahead on the global clock and broadcasts it, and every rank spins
//   until then (Hunold, Carpen-Amarie: ReproMPI). A rank that gets the time too late, or loses its processor
//   while it spins, makes the repetition invalid. The time ahead is a multiple of what a broadcast takes;
//   rank 0 alone changes it.
// - none: back to back.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "bench/clock.hpp"

namespace mq::bench {

enum class Sync : std::uint8_t { barrier, round, none };
const char* name(Sync sync);         // the word of --sync
const char* description(Sync sync);  // for the result file

// How a rank began, from good to bad.
enum class Began : std::uint8_t {
  in_time,
  held_up,  // had the time early enough, but no processor when it came: more time ahead would not help
  late,     // had it too late
};

class Starter {
 public:
  // Collective. clock may be null unless sync is round; it and comm must outlive this.
  Starter(Sync sync, const GlobalClock* clock, MPI_Comm comm);
  // Returns when this rank is to begin. Collective.
  Began operator()() const;
  // Rank 0 hears in what part of the last repetitions a rank was late, and plans further ahead if in many.
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
