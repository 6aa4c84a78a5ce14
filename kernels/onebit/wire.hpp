// What the host and GPU rows of onebit share (onebit/onebit.hpp describes the codec): how its parameters
// cut a vector, and the arithmetic of its means, in double and in a fixed order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/blocks.hpp"
#include "kernels/codec.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels::onebit {

constexpr bool is_column(const Params& p) { return p.value[1] == 1 && p.value[3] > 0; }
constexpr bool whole(const Params& p) { return p.value[1] == 2; }
constexpr bool splits_at_mean(const Params& p) { return p.value[2] == 1; }
constexpr std::size_t block(const Params& p) {
  if (whole(p)) return 2048;
  return static_cast<std::size_t>(is_column(p) ? std::max(p.value[3], p.value[4]) : p.value[0]);
}
constexpr Cut cut(const Params& p, std::size_t n) {
  if (whole(p)) return {n, n};
  const std::size_t both = block(p), rows = static_cast<std::size_t>(p.value[3]);
  return is_column(p) && rows < both ? Cut{rows, both - rows} : Cut{both, both};
}
MQ_HD constexpr std::size_t code_bytes(std::size_t n) { return (n + 7) / 8; }

// On the wire before the codes of a block.
template <class T>
struct Means {
  T below, above;
};
static_assert(sizeof(Means<float>) == 8 && sizeof(Means<double>) == 16);

template <class T>
MQ_HD constexpr std::size_t block_bytes(std::size_t n) {
  return sizeof(Means<T>) + code_bytes(n);
}

// The means of the elements below the threshold and of the others. Pieces are joined as a mean of means,
// which cannot overflow, unlike a sum.
template <class T>
struct Sides {
  T threshold{0};
  std::size_t n_below = 0, n_above = 0;
  double below = 0, above = 0;
  bool finite = true;

  // Adds a piece of a block to the pieces before it.
  MQ_HD constexpr void join(double mean_below, std::size_t more_below, double mean_above,
                            std::size_t more_above) {
    if (more_below != 0) below = toward(below, mean_below, share(n_below, more_below));
    if (more_above != 0) above = toward(above, mean_above, share(n_above, more_above));
    n_below += more_below;
    n_above += more_above;
  }
  // The two steps of a join: the share of n_b elements in all, and the mean of both parts.
  static MQ_HD constexpr double share(std::size_t n_a, std::size_t n_b) {
    return static_cast<double>(n_b) / static_cast<double>(n_a + n_b);
  }
  static MQ_HD constexpr double toward(double a, double b, double share) {
    constexpr double kMax = static_cast<double>(std::numeric_limits<T>::max());
    const double mean = a + (b - a) * share;
    return mean < -kMax ? -kMax : mean > kMax ? kMax : mean;  // rounding must not leave the range of T
  }
  // Returns true, once, if the block is to be split at its mean instead of zero, and so must be measured
  // again. Returns false if the mean is so near to zero that the split would hardly move. So most blocks of
  // most gradients need no second measurement. Returns false if v - mean could overflow: |v| is at most the
  // sum of its side, and a quarter of the range leaves room for the rounding of this sum.
  MQ_HD constexpr bool again(bool at_mean) {
    constexpr double kFar = 16;
    constexpr double kSafe = static_cast<double>(std::numeric_limits<T>::max()) / 4;
    const double sum_below = below * static_cast<double>(n_below);
    const double sum_above = above * static_cast<double>(n_above);
    if (!at_mean || !(-sum_below <= kSafe && sum_above <= kSafe)) return false;
    const double mean = (sum_below + sum_above) / static_cast<double>(n_below + n_above);
    if (!(kFar * (mean < 0 ? -mean : mean) > above - below)) return false;
    *this = Sides();
    threshold = static_cast<T>(mean);
    return true;
  }
  MQ_HD constexpr Means<T> means() const { return {static_cast<T>(below), static_cast<T>(above)}; }
};

// Mean of `count` terms whose sum, in units of `scale`, is `total`.
MQ_HD constexpr double mean_of(double total, std::size_t count, double scale) {
  return count == 0 ? 0 : total / static_cast<double>(count) / scale;
}

}  // namespace mq::kernels::onebit
