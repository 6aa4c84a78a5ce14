// Sums over a rank's whole vector that memory rules decide by: their terms, and the order in which they are
// added. Host and GPU share both, so that they give the same bits.
//
// A vector is cut into parts of kPart elements. In a part, element i is added to partial sum i mod kSums, in
// the order of elements; then the partial sums are joined by halving: k with k + 8, then k + 4, and so on.
// The sums of parts are added in the order of parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/hd.hpp"
#include "kernels/memory.hpp"

namespace mq::kernels::memory_sums {

inline constexpr std::size_t kSums = 16, kPart = 1024;

constexpr std::size_t parts_of(std::size_t n) { return n / kPart + (n % kPart != 0); }

// The term of MemoryOps::squares.
MQ_HD constexpr double square(double x, double scale) {
  const double v = x * scale;
  return is_finite(v) ? v * v : 0;
}

// The terms of MemoryOps::distances. minus_h: minus the estimate of x; last: x of the call before.
MQ_HD constexpr Distances distances(double x, double minus_h, double last, double scale) {
  const double from_h = (x + minus_h) * scale, from_last = (x - last) * scale;
  return {from_h * from_h, from_last * from_last};
}

}  // namespace mq::kernels::memory_sums
