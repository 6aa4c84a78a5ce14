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
    model.alpha_s = (u1 * vv - v1 * uv) / determinant;
    model.beta_s = (v1 * uu - u1 * uv) / determinant;
  } else if (uu > 0) {
    model.alpha_s = u1 / uu;
  }
  if (model.alpha_s < 0) model = {0, v1 / vv, 0};
  if (model.beta_s < 0) model = {u1 / uu, 0, 0};
  model.residual = residual_of(points, model);
  return model;
}

}  // namespace mq
