// How late each rank enters a call (--arrival). Programs seldom enter a collective call together: work is
// uneven, and nodes are disturbed (Faraj, Patarasuk, Yuan, A study of process arrival patterns for MPI
// collective operations, 2008; ReproMPI). It is part of what is measured, so it is stored with each row.
//
// The times of such calls count from the arrival of the last rank. What earlier ranks wait until then is the
// lateness of the program, not a cost of the call. The most that a rank is late is known beforehand: the
// delays are a function of a seed and the number of the repetition, the same on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

struct Arrival {
  enum class Pattern : std::uint8_t {
    together,     // no rank waits before the call
    uniform,      // each rank at random, up to `scale_us` late
    exponential,  // each rank at random, in the mean `scale_us` late, at most ten times that
    one,          // one rank, at random, is `scale_us` late
    ramp,         // rank r is r / (P - 1) of `scale_us` late
  };
  Pattern pattern = Pattern::together;
  double scale_us = 0;
  friend bool operator==(const Arrival&, const Arrival&) = default;
};

// "together", "uniform:100", "one:2000". Microseconds, more than 0 and at most 10^6.
Result<Arrival> parse_arrival(std::string_view text);
// "together,uniform:100"; each once.
Result<std::vector<Arrival>> parse_arrivals(std::string_view text);
std::string to_string(const Arrival& arrival);

// Seconds that each rank waits before its call in this repetition.
std::vector<double> delays_s(const Arrival& arrival, int ranks, std::uint64_t seed, std::uint64_t repetition);

// Waits for as long as this rank has to be late. Returns the seconds from now until the last rank arrives.
double arrive(const Arrival& arrival, int rank, int ranks, std::uint64_t seed, std::uint64_t repetition);

}  // namespace mq::bench
