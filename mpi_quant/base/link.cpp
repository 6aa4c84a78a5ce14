#include "mpi_quant/base/link.hpp"

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

// The longer of 2 k overhead, where the processor is always busy, and alpha + (k - 1) overhead, where it
// waits for the last message.
double LinkModel::burst_s(int messages) const {
  return std::max(2 * messages * overhead_s, alpha_s() + (messages - 1) * overhead_s);
}

LinkModel fit(std::span<const LinkPoint> points) {
  const LinkPoint *shortest = nullptr, *longest = nullptr;
  for (const LinkPoint& p : points)
    if (p.seconds > 0) {
      if (shortest == nullptr || p.bytes < shortest->bytes) shortest = &p;
      if (longest == nullptr || p.bytes > longest->bytes) longest = &p;
    }
  LinkModel model;
  if (shortest == nullptr) return model;
  if (longest->bytes > shortest->bytes)
    model.beta_s = std::max((longest->seconds - shortest->seconds) / (longest->bytes - shortest->bytes), 0.0);
  model.latency_s = std::max(shortest->seconds - model.beta_s * shortest->bytes, 0.0);
  model.residual = residual_of(points, model);
  return model;
}

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
