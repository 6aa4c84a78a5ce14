// What a message costs on the links of a communicator: t = alpha + beta bytes (Hockney 1994), measured and
// fitted. The model of predict.hpp.
#pragma once

#include <span>

namespace mq {

struct LinkModel {
  double alpha_s = 0, beta_s = 0;  // of a message, and of each of its bytes
  double residual = 0;             // root mean square of (model - measured) / measured
  double seconds(double bytes) const { return alpha_s + beta_s * bytes; }
};

struct LinkPoint {
  double bytes = 0, seconds = 0;  // seconds > 0
};

// Least squares of the relative differences, so that short messages count as much as long ones; neither
// number below 0. Points without time are left out; without any left, a link that costs nothing.
LinkModel fit(std::span<const LinkPoint> points);

}  // namespace mq
