// Order statistics of repeated times. They use no mean and assume no normal distribution. Reported numbers
// and the stop rule both come from here.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace mq::bench {

// The exact binomial confidence interval of a median is [x_(j), x_(n+1-j)] of the sorted sample. Returns the
// largest j with sum_{i<j} C(n,i) / 2^n <= (1 - confidence) / 2, or 0 if there is none (for 95 %: if n < 6).
std::size_t median_interval_rank(std::size_t n, double confidence);

struct Interval {
  double lo, hi;  // NaN if the sample is too small
};
Interval median_interval(std::span<const double> sorted, double confidence);

double median_of_sorted(std::span<const double> sorted);  // NaN if empty

// The last three calls of a warm-up.
class LastCalls {
 public:
  void add(double seconds);
  bool steady() const;    // there are three, and they lie within a tenth of the shortest
  double median() const;  // of those that there are; NaN before the first

 private:
  std::array<double, 3> seconds_{};  // in no order
  std::size_t calls_ = 0;
};

// Nearest rank: the smallest value that at least a fraction q of the sample does not exceed.
double quantile_of_sorted(std::span<const double> sorted, double q);

inline constexpr double kConfidence = 0.95;

struct Summary {
  std::size_t n = 0;
  double median, ci_lo, ci_hi;  // at kConfidence
  double min, mean, p5, p95;
  double p99;  // NaN if n < 100, where it would be the maximum
  double mad;  // median absolute deviation, not scaled
  // Values outside Tukey's fences: 1.5 to 3, and more than 3 interquartile ranges beyond the quartiles. They
  // are counted, never dropped.
  int outliers_mild = 0, outliers_severe = 0;
  double lag1;  // autocorrelation; above 0.3 the interval is too narrow. NaN if the sample does not vary
};
Summary summarize(std::span<const double> sample);  // in the order of measurement

// Half of the interval divided by the median; NaN if there is no interval.
double relative_half_width(const Summary&);

// A paired comparison: sample k of both was measured in the same block. The value is exp(median of ln base -
// ln variant), with the interval of the sign test. `comparisons` variants are compared with one base, so each
// interval is taken at 1 - (1 - kConfidence) / comparisons (Bonferroni).
struct Speedup {
  double ratio, lo, hi;
};
Speedup paired_speedup(std::span<const double> base, std::span<const double> variant, int comparisons);

// How much of a call that does not block is hidden behind a computation, in percent:
// (pure + compute - total) / min(pure, compute), the median over blocks with its interval, between 0 and 100.
// Where the computation is at least as long as the call alone, osu_iallreduce computes the same: 1 - (total -
// compute) / pure. IMB-NBC of the Intel MPI Benchmarks divides by the longer of the two. Sample k of all
// three was measured in the same block.
struct Overlap {
  double percent, lo, hi;  // NaN if there is no sample, or too few
};
Overlap overlap_of(std::span<const double> pure, std::span<const double> compute,
                   std::span<const double> total);

}  // namespace mq::bench
