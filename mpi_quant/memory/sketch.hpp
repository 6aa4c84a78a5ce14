// What a vector looks like, for telling whether two vectors are one tensor at two steps of a program: the
// magnitudes of some 2,000 of its elements, at fixed positions, by rank. Signs of gradients do not correlate
// from step to step, and their scale moves; which elements are large and which are small stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/codec.hpp"

namespace mq {

// Magnitudes at up to kMost positions, as ranks: -127 for the smallest to 127 for the greatest, the same for
// equal ones. The positions are runs of kRun elements, a cache line of floats each, all over the vector; they
// depend on its length alone.
class Sketch {
 public:
  static constexpr std::size_t kRun = 16, kRuns = 128, kMost = kRun * kRuns;

  // Of n elements, on the host or on a device, whose values are copied. Reads 8 KiB of floats.
  static Sketch of(const std::byte* x, std::size_t n, kernels::Element element);
  // False if one of the values is not finite, or could not be read.
  bool finite() const { return finite_; }
  // All magnitudes are the same: nothing to tell it by.
  bool blank() const { return norm_ == 0; }
  std::size_t size() const { return size_; }
  const std::array<std::int8_t, kMost>& ranks() const { return ranks_; }  // 0 beyond size()
  double norm() const { return norm_; }

 private:
  template <class T>
  void rank(const T* values);

  std::array<std::int8_t, kMost> ranks_{};
  std::size_t size_ = 0;
  double norm_ = 0;  // Euclidean, of the ranks
  bool finite_ = true;
};

// Spearman's rank correlation of two sketches of one size, -1 to 1; the second one rotated by `shift`
// positions. Neither is blank.
double correlation(const Sketch& a, const Sketch& b, std::size_t shift = 0);

// The running mean of the sketches of one tensor.
class MeanSketch {
 public:
  explicit MeanSketch(const Sketch& first) { add(first); }
  void add(const Sketch& next);
  double correlation(const Sketch& other) const;

 private:
  // A sketch counts for so much less than the one after it: some twenty sketches speak.
  static constexpr double kWeight = 0.1;
  std::array<float, Sketch::kMost> mean_{};
  double norm_ = 0;
  std::uint64_t sketches_ = 0;
};

}  // namespace mq
