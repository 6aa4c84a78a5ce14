// A short description of a vector, to tell whether two vectors are one tensor at two steps of a program. It
// holds the order of the magnitudes of some 2,000 elements at fixed positions. Signs of gradients do not
// correlate from step to step, and their scale moves. Which elements are large and which are small persists.
// Two numbers beside the order tell vectors apart that share them, like x and x * x: the scale, and whether
// all signs are alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/codec.hpp"

namespace mq {

// Magnitudes at up to kMost positions, as their order: -127 for the smallest to 127 for the greatest. Equal
// magnitudes have equal orders. The positions are runs of kRun elements (a cache line of floats), spread over
// the vector. They depend only on the length of the vector.
class Sketch {
 public:
  static constexpr std::size_t kRun = 16, kRuns = 128, kMost = kRun * kRuns;

  // The sketch of n elements at x, on the host or on a device. Reads up to 8 KiB of floats.
  static Sketch of(const std::byte* x, std::size_t n, kernels::Element element);
  // False if a value is not finite or could not be read.
  bool finite() const { return finite_; }
  // True if all magnitudes are the same, or if there are fewer than two: the sketch then tells nothing.
  bool blank() const { return norm_ == 0; }
  std::size_t size() const { return size_; }
  const std::array<std::int8_t, kMost>& orders() const { return orders_; }  // 0 beyond size()
  double norm() const { return norm_; }
  // log2 of the mean magnitude.
  double scale() const { return scale_; }
  // The share of values below zero.
  double negative() const { return negative_; }

 private:
  template <class T>
  void set_orders(const T* values);

  std::array<std::int8_t, kMost> orders_{};
  std::size_t size_ = 0;
  double norm_ = 0;  // Euclidean, of the orders
  double scale_ = 0, negative_ = 0;
  bool finite_ = true;
};

// Spearman's rank correlation of two sketches of the same size, from -1 to 1. The second one is rotated by
// `shift` positions. Neither may be blank.
double correlation(const Sketch& a, const Sketch& b, std::size_t shift = 0);

// True if the scale differs by a factor of more than eight, or if one vector has one sign and the other has
// both. One tensor rarely does that from step to step.
bool differ_in_kind(const Sketch& a, const Sketch& b);

// The running mean of the sketches of one tensor.
class MeanSketch {
 public:
  explicit MeanSketch(const Sketch& first) { add(first); }
  void add(const Sketch& next);
  double correlation(const Sketch& other) const;

 private:
  // The weight of the newest sketch. The mean then speaks for the last twenty sketches or so.
  static constexpr double kWeight = 0.1;
  std::array<float, Sketch::kMost> mean_{};
  double norm_ = 0;
  std::uint64_t sketches_ = 0;
};

}  // namespace mq
