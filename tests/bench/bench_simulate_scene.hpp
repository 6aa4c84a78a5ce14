// The network, the calls and the numbers of ranks of the tests of the simulation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/research/simulate/call.hpp"
#include "bench/research/simulate/network.hpp"
#include "tests/sanitized.hpp"

namespace mq::sim {

// A network on which every part of a time can be told apart.
inline Network network() {
  Network n;
  n.latency_s = 3e-6;
  n.overhead_s = 0.7e-6;
  n.bandwidth_Bps = 1e9;
  n.node_latency_s = 0.11e-6;
  n.node_bandwidth_Bps = 5e9;
  return n;
}

// From the call of send() at one rank to the end of the test at the other, if nothing else is on the way.
inline double message_s(const Network& n, double bytes) {
  // Bytes are copied while they leave, and while the receiver waits for them. Copying the last ones is not
  // simulated.
  return 2 * n.overhead_s + n.latency_s + bytes * std::max(1 / n.bandwidth_Bps, n.copy_s);
}

inline SimulatedCall call_of(const char* method, std::size_t count, int ranks) {
  SimulatedCall call;
  call.method = *parse_method(method);
  call.count = count;
  call.ranks = ranks;
  return call;
}

inline SimulatedResult run(const SimulatedCall& call, const Network& n,
                           const Rates& rates = Rates::constant(0)) {
  const Status status = check(call, n, rates);
  EXPECT_TRUE(status.ok()) << status.text();
  SimulatedResult result = simulate(call, n, rates);
  EXPECT_TRUE(result.status.ok()) << result.status.text();
  EXPECT_EQ(result.leaked, 0u);
  return result;
}

inline int many_ranks() { return test::kSanitized ? 96 : 1024; }

}  // namespace mq::sim
