// How the ranks start a repetition together (--sync). It is part of the method and stored with each row, so
// it is separate.
//
//
// - barrier: they start after a dissemination barrier.
// - round: rank 0 picks a time a little ahead on the global clock and broadcasts it; every rank spins until
//   then (Hunold, Carpen-Amarie: ReproMPI). If a rank gets the time too late, or loses its processor while it
//   spins, the repetition is invalid. The time ahead is a multiple of the time of a broadcast. Only rank 0
//   changes it.
// - none: repetitions run back to back.
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
  held_up,  // had the time early enough, but no processor when it came; more time ahead would not help
  late,     // got the time too late
};

class Starter {
 public:
  // Collective. clock may be null unless sync is round. clock and comm must outlive this object.
  Starter(Sync sync, const GlobalClock* clock, MPI_Comm comm);
  // Returns when this rank must begin. Collective.
  Began operator()() const;
  // Rank 0 learns in which part of the last repetitions a rank was late. If the part is large, it plans
  // further ahead.
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
