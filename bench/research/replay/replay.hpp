// Sends recorded vectors, such as the gradients of a training, through methods again: what the results of
// many calls add up to, what they cost in bytes, and how long a call takes.
#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/parse_lists.hpp"
#include "bench/recording.hpp"
#include "bench/rows.hpp"

namespace mq::bench {

// What all steps together made of a method. The same on all ranks.
struct Replayed {
  double bytes = kUnknown;  // sent by the busiest rank in a call; unknown for "mpi"
  double error = kUnknown;  // |sum of all results - exact sum| / |exact sum|
  double debt = kUnknown;   // the same difference, in units of the root mean square of one step's exact sum
  double first = kUnknown;  // |result - exact sum| / |exact sum| of the first step
  std::vector<double> seconds = {};  // of each call: of the slowest rank, from a barrier on
  std::string problem = {};          // why the other members are unknown; "" if they are known
};

class Replay {
 public:
  // The steps of one vector. row: elements of a row if it is a matrix that is stored row by row, 0 if not.
  // The recording must outlive this object. Collective over comm.
  Replay(const Recording& recording, std::size_t row, MPI_Comm comm);

  // Each step goes through every method before the next step does, because then a disturbance of the machine
  // meets all of them. The first method of a step is another one each time. Collective.
  std::vector<Replayed> run(std::span<const MethodWord> methods, bool feedback) const;

 private:
  struct Lane;
  void call(Lane& lane, std::span<const float> x, std::size_t step) const;
  Replayed finish(Lane& lane) const;

  const Recording& recording_;
  std::size_t row_, count_;
  MPI_Comm comm_;
  int rank_ = 0;
  std::vector<double> total_, first_;  // the exact sums over ranks of all steps, and of the first one
  double step_norm_ = 0;               // root mean square of the norms of the steps' sums
};

}  // namespace mq::bench
