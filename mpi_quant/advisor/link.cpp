#include "mpi_quant/advisor/link.hpp"

#include <algorithm>
#include <cmath>

namespace mq {
namespace {

double residual_of(std::span<const LinkPoint> points, const LinkModel& model) {
  double sum = 0, n = 0;
  for (const LinkPoint& p : points)
    if (p.seconds > 0) {
      const double relative = model.seconds(p.bytes) / p.seconds - 1;
      sum += relative * relative;
      n += 1;
    }
  return n > 0 ? std::sqrt(sum / n) : 0;
}

}  // namespace

// With u = 1 / seconds and v = bytes / seconds, alpha u + beta v = 1 at every point.
LinkModel fit(std::span<const LinkPoint> points) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const LinkPoint& p : points)
    if (p.seconds > 0) {
      const double u = 1 / p.seconds, v = p.bytes / p.seconds;
      uu += u * u;
      uv += u * v;
      vv += v * v;
      u1 += u;
      v1 += v;
    }
  LinkModel model;
  const double determinant = uu * vv - uv * uv;
  if (determinant > 1e-12 * uu * vv) {  // otherwise all points have the same size
    model.latency_s = (u1 * vv - v1 * uv) / determinant;
    model.beta_s = (v1 * uu - u1 * uv) / determinant;
  } else if (uu > 0) {
    model.latency_s = u1 / uu;
  }
  if (model.latency_s < 0) model = {0, 0, v1 / vv};
  if (model.beta_s < 0) model = {u1 / uu, 0, 0};
  model.residual = residual_of(points, model);
  return model;
}

// k messages take the longer of 2 k overhead, where the processor is always busy, and alpha + (k - 1)
// overhead, where it waits for the last one.
LinkModel split(const LinkModel& model, int messages, double seconds) {
  LinkModel parted = model;
  if (messages < 2) return parted;
  const double alpha = model.alpha_s(),
               overhead = std::min(seconds / (2 * messages), (seconds - alpha) / (messages - 1));
  parted.overhead_s = std::clamp(overhead, 0.0, alpha / 2);
  parted.latency_s = alpha - 2 * parted.overhead_s;
  return parted;
}

}  // namespace mq
