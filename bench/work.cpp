#include "bench/work.hpp"

#include <algorithm>
#include <cmath>

#include "bench/sync.hpp"

namespace mq::bench {
namespace {

constexpr double kLongEnough_s = 1e-3;  // some 10^4 steps of the clock
constexpr int kTries = 5;               // the fastest counts: others were interrupted

}  // namespace

Work::Work() {
  x_.fill(1);
  passes(100);  // wakes the processor up
  int tries = 0;
  for (long n = 100; tries < kTries;) {
    const double start = now_s();
    passes(n);
    const double taken = now_s() - start;
    passes_per_s_ = std::max(passes_per_s_, static_cast<double>(n) / taken);
    if (taken < kLongEnough_s)
      n *= 2;
    else
      ++tries;
  }
}

void Work::operator()(double seconds) { passes(std::max(1L, std::lround(seconds * passes_per_s_))); }

// x = x / 2 + 1/2 keeps every element at 1, whatever is computed before.
void Work::passes(long n) {
  for (long i = 0; i < n; ++i) {
    for (double& x : x_) x = x * 0.5 + 0.5;
    asm volatile("" : : "r"(x_.data()) : "memory");  // no pass is left out
  }
}

}  // namespace mq::bench
