#include "sparse_allreduce/union_model.hpp"

#include <algorithm>
#include <cmath>

namespace mq::sparse {
namespace portable {

// The C library's floor, ldexp and frexp are exact, so they are used.
double exp(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  if (x < -700) return 0;
  if (x > 700) x = 700;
  const double k = std::floor(x / kLn2 + 0.5), r = x - k * kLn2;
  double sum = 1;
  for (int i = 12; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(k));
}

double log(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  int k = 0;
  double m = std::frexp(x, &k);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --k;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int i = 19; i > 0; i -= 2) sum = 1.0 / i + square * sum;
  return k * kLn2 + 2 * s * sum;
}

}  // namespace portable

namespace {

// 1 - exp(-x) without cancellation.
double present(double x) { return x < 1e-5 ? x - x * x / 2 : 1 - portable::exp(-x); }

constexpr int kExact = 16;  // number of the most frequent indices, summed one by one
constexpr int kSteps = 96;  // of Simpson's rule over log r for the other indices; relative error below 1e-3

}  // namespace

UnionModel::UnionModel(double size, double entries, double alpha) : size_(std::max(size, 1.0)) {
  set_alpha(alpha);
  fit_lambda(entries);
}

UnionModel UnionModel::fitted(double size, double entries, int ranks, double together) {
  UnionModel model(size, entries, 0);
  if (entries <= 0 || model.of(ranks) <= together) return model;
  double low = 0, high = kMostAlpha;  // a larger alpha means fewer indices together
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    model.set_alpha(middle);
    model.fit_lambda(entries);
    (model.of(ranks) > together ? low : high) = middle;
  }
  return model;
}

double UnionModel::of(double lists) const { return sum(lambda_ * lists); }

void UnionModel::set_alpha(double alpha) {
  alpha_ = std::clamp(alpha, 0.0, kMostAlpha);
  nodes_.clear();
  const double exact = std::min<double>(kExact, std::floor(size_));
  for (int r = 1; r <= exact; ++r) nodes_.push_back({1, portable::exp(-alpha_ * portable::log(r))});
  if (size_ <= exact) return;
  // The rest of the sum is an integral: from half an index before the first to half an index after the last.
  const double first = portable::log(exact + 0.5), last = portable::log(size_ + 0.5);
  const double step = (last - first) / kSteps;
  for (int i = 0; i <= kSteps; ++i) {
    const double u = first + step * i;
    const double simpson = i == 0 || i == kSteps ? 1 : i % 2 != 0 ? 4 : 2;
    nodes_.push_back({simpson / 3 * step * portable::exp(u), portable::exp(-alpha_ * u)});
  }
}

void UnionModel::fit_lambda(double entries) {
  lambda_ = 0;
  if (entries <= 0) return;
  entries = std::min(entries, size_ * (1 - 1e-6));
  // The logarithm of the sum as a function of the logarithm of lambda rises and is nearly straight. So regula
  // falsi takes about ten sums. (Illinois rule: the weight of a side that stays is halved.)
  const double wanted = portable::log(entries);
  const auto excess = [&](double u) {
    return portable::log(std::max(sum(portable::exp(u)), 1e-300)) - wanted;
  };
  double low = -100, high = 250, at_low = excess(low), at_high = excess(high), u = low;
  for (int i = 0, side = 0; i < 60 && high - low > 1e-7; ++i) {
    u = (low * at_high - high * at_low) / (at_high - at_low);
    const double at_u = excess(u);
    if (at_u < 1e-7 && at_u > -1e-7) break;
    if (at_u < 0) {
      low = u;
      at_low = at_u;
      if (side < 0) at_high /= 2;
      side = -1;
    } else {
      high = u;
      at_high = at_u;
      if (side > 0) at_low /= 2;
      side = 1;
    }
  }
  lambda_ = portable::exp(u);
}

double UnionModel::sum(double lambda) const {
  double sum = 0;
  for (const Node& node : nodes_) sum += node.weight * present(lambda * node.rate);
  return sum;
}

}  // namespace mq::sparse
