// The cost of messages on the links of a communicator: a model, and what it says of measured times. One
// message takes t = alpha + beta bytes (Hockney 1994), where alpha is a latency and an overhead at each end.
// Latencies of messages that are under way together overlap, and overheads do not; so messages one at a time
// tell only alpha, and messages in a burst tell the two apart. link_meter.hpp measures.
#pragma once

#include <span>

namespace mq {

struct LinkModel {
  double latency_s = 0,
         overhead_s = 0;  // of a message; the overhead at its sender, and once more at its receiver
  double beta_s = 0;      // per byte
  double residual = 0;    // root mean square of (model - measured) / measured
  double alpha_s() const { return latency_s + 2 * overhead_s; }
  double seconds(double bytes) const { return alpha_s() + beta_s * bytes; }
  // Two ranks send each other so many short messages at once: after so long both have all of them. The
  // processor handles 2 messages of each, and the last message comes a latency after it was sent.
  double burst_s(int messages) const;
};

struct LinkPoint {
  double bytes = 0, seconds = 0;  // seconds > 0
};

// The model through the shortest and the longest message: the first tells alpha, the second beta, and neither
// is below 0. Those between them count in the residual alone, because MPI and networks treat messages of some
// length in another way: short ones may be copied once more, or pass faster than the bandwidth. All of alpha
// is latency. Points without time are ignored; if no points are left, the link costs nothing.
LinkModel fit(std::span<const LinkPoint> points);

// Tells latency and overhead apart by a burst: burst_s(messages) of the result is this time, if a model with
// this alpha can take it. alpha stays as it is.
LinkModel split(const LinkModel& model, int messages, double seconds);

}  // namespace mq
