// The cost of messages on the links of a communicator, measured and fitted. One message takes
// t = alpha + beta bytes (Hockney 1994), where alpha is a latency and an overhead at each end. Latencies of
// messages that are under way together overlap, and overheads do not; so messages one at a time tell only
// alpha, and messages in a burst tell the two apart. predict.hpp uses this model.
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
};

struct LinkPoint {
  double bytes = 0, seconds = 0;  // seconds > 0
};

// A least squares fit of the relative differences, so that short messages count as much as long ones. Neither
// alpha nor beta is below 0, and all of alpha is latency. Points without time are ignored; if no points are
// left, the link costs nothing.
LinkModel fit(std::span<const LinkPoint> points);

// Tells latency and overhead apart by a burst: two ranks sent each other so many short messages at once, and
// both had all of them after so long. The processor handles 2 messages of each, and the last one comes a
// latency after it was sent. alpha stays as it is.
LinkModel split(const LinkModel& model, int messages, double seconds);

}  // namespace mq
