#include "bench/stats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace mq::bench {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> sorted_copy(std::span<const double> sample) {
  std::vector<double> sorted(sample.begin(), sample.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double mean_of(std::span<const double> sample) {
  return std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
}

double lag1_of(std::span<const double> sample, double mean) {
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double d = sample[i] - mean;
    squares += d * d;
    if (i > 0) products += d * (sample[i - 1] - mean);
  }
  return squares > 0 ? products / squares : kNaN;
}

double mad_of(std::span<const double> sorted, double median) {
  std::vector<double> deviations(sorted.size());
  std::transform(sorted.begin(), sorted.end(), deviations.begin(),
                 [&](double x) { return std::abs(x - median); });
  return median_of_sorted(sorted_copy(deviations));
}

void classify_outliers(std::span<const double> sorted, Summary& s) {
  const double q1 = quantile_of_sorted(sorted, 0.25), q3 = quantile_of_sorted(sorted, 0.75), iqr = q3 - q1;
  for (const double x : sorted) {
    const double beyond = std::max(q1 - x, x - q3);
    if (beyond > 3.0 * iqr)
      ++s.outliers_severe;
    else if (beyond > 1.5 * iqr)
      ++s.outliers_mild;
  }
}

}  // namespace

std::size_t median_interval_rank(std::size_t n, double confidence) {
  const double tail = (1.0 - confidence) / 2.0;
  const auto count = static_cast<double>(n);
  // C(n,i) / 2^n is computed by its logarithm, because 2^n overflows a double from n = 1024 on.
  double log_term = -count * std::log(2.0), sum = 0;
  std::size_t j = 0;
  while (2 * (j + 1) <= n) {
    sum += std::exp(log_term);
    if (sum > tail) break;
    const auto i = static_cast<double>(j);
    log_term += std::log((count - i) / (i + 1.0));
    ++j;
  }
  return j;
}

Interval median_interval(std::span<const double> sorted, double confidence) {
  const std::size_t j = median_interval_rank(sorted.size(), confidence);
  if (j == 0) return {kNaN, kNaN};
  return {sorted[j - 1], sorted[sorted.size() - j]};
}

double median_of_sorted(std::span<const double> sorted) {
  if (sorted.empty()) return kNaN;
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

void LastCalls::add(double seconds) { seconds_[calls_++ % seconds_.size()] = seconds; }

bool LastCalls::steady() const {
  constexpr double kSteady = 0.10;
  const auto [least, most] = std::minmax_element(seconds_.begin(), seconds_.end());
  return calls_ >= seconds_.size() && *most - *least <= kSteady * *least;
}

double LastCalls::median() const {
  auto sorted = seconds_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(calls_, sorted.size()));
  std::sort(sorted.begin(), end);
  return median_of_sorted({sorted.begin(), end});
}

double quantile_of_sorted(std::span<const double> sorted, double q) {
  if (sorted.empty()) return kNaN;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

Summary summarize(std::span<const double> sample) {
  Summary s{.n = sample.size(),
            .median = kNaN,
            .ci_lo = kNaN,
            .ci_hi = kNaN,
            .min = kNaN,
            .mean = kNaN,
            .p5 = kNaN,
            .p95 = kNaN,
            .p99 = kNaN,
            .mad = kNaN,
            .lag1 = kNaN};
  if (sample.empty()) return s;
  const std::vector<double> sorted = sorted_copy(sample);
  const Interval ci = median_interval(sorted, kConfidence);
  s.median = median_of_sorted(sorted);
  s.ci_lo = ci.lo;
  s.ci_hi = ci.hi;
  s.min = sorted.front();
  s.mean = mean_of(sample);
  s.p5 = quantile_of_sorted(sorted, 0.05);
  s.p95 = quantile_of_sorted(sorted, 0.95);
  if (s.n >= 100) s.p99 = quantile_of_sorted(sorted, 0.99);
  s.mad = mad_of(sorted, s.median);
  s.lag1 = lag1_of(sample, s.mean);
  classify_outliers(sorted, s);
  return s;
}

double relative_half_width(const Summary& s) { return 0.5 * (s.ci_hi - s.ci_lo) / s.median; }

Speedup paired_speedup(std::span<const double> base, std::span<const double> variant, int comparisons) {
  const std::size_t n = std::min(base.size(), variant.size());
  std::vector<double> log_ratio(n);
  for (std::size_t k = 0; k < n; ++k) log_ratio[k] = std::log(base[k]) - std::log(variant[k]);
  std::sort(log_ratio.begin(), log_ratio.end());
  const double confidence = 1.0 - (1.0 - kConfidence) / std::max(1, comparisons);
  const Interval ci = median_interval(log_ratio, confidence);
  return {std::exp(median_of_sorted(log_ratio)), std::exp(ci.lo), std::exp(ci.hi)};
}

Overlap overlap_of(std::span<const double> pure, std::span<const double> compute,
                   std::span<const double> total) {
  std::vector<double> percents;
  for (std::size_t k = 0; k < std::min({pure.size(), compute.size(), total.size()}); ++k)
    percents.push_back(100 * (pure[k] + compute[k] - total[k]) / std::min(pure[k], compute[k]));
  std::sort(percents.begin(), percents.end());
  const Interval interval = median_interval(percents, kConfidence);
  const auto within = [](double percent) {
    return std::isnan(percent) ? percent : std::clamp(percent, 0.0, 100.0);
  };
  return {within(median_of_sorted(percents)), within(interval.lo), within(interval.hi)};
}

}  // namespace mq::bench
