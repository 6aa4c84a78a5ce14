// The cost of a message on the links of a communicator: t = alpha + beta bytes (Hockney 1994), measured and
// fitted. predict.hpp uses this model.
#pragma once

#include <span>

namespace mq {

struct LinkModel {
  double alpha_s = 0, beta_s = 0;  // seconds per message, and per byte
  double residual = 0;             // root mean square of (model - measured) / measured
  double seconds(double bytes) const { return alpha_s + beta_s * bytes; }
};

struct LinkPoint {
  double bytes = 0, seconds = 0;  // seconds > 0
};

// A least squares fit of the relative differences, so that short messages count as much as long ones. Neither
// alpha nor beta is below 0. Points without time are ignored; if no points are left, the link costs nothing.
LinkModel fit(std::span<const LinkPoint> points);

}  // namespace mq
