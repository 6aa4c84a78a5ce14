// What a call needs on a rank, as a function of the number of ranks: messages, memory, peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/research/simulate/call.hpp"

namespace mq::sim {

// Of the rank that needs most of each.
struct Footprint {
  std::uint64_t messages = 0, bytes = 0;  // sent by one call, agreement included
  std::size_t peers = 0;                  // ranks that a rank sends to
  std::size_t steps = 0;                  // of the plan, which is made at the first call
  std::size_t plan_bytes = 0;             // of these steps and of what the executor knows about them
  std::size_t requests = 0;               // of MPI, for each segment in flight
  std::size_t buffer_bytes = 0;           // frames and accumulators of the segments in flight
};

// check() must have allowed the call. Throws std::bad_alloc.
Footprint footprint(const SimulatedCall& call, const Network& network, const Rates& rates);

// The table of results/2026-11-25-scale/README.md up to so many ranks, of a one-bit call of 1 MiB of floats,
// in Markdown.
std::string footprint_table(int most_ranks);

}  // namespace mq::sim
