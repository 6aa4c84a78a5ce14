// What the values of a program's vectors look like, for people who have to decide whether they may be
// rounded: range, zeros, whole numbers, NaN. Knows no MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/codec.hpp"

namespace mq {

struct ValueStatistics {
  static constexpr int kNoMin = std::numeric_limits<int>::max(), kNoMax = std::numeric_limits<int>::min();

  std::uint64_t n = 0;
  std::uint64_t zeros = 0;
  // Integers other than 0 up to 2^24 (f32) or 2^53 (f64): beyond, every number is one.
  std::uint64_t whole = 0;
  std::uint64_t nonfinite = 0;
  // e with 2^e <= |v| < 2^(e+1), of values that are finite and not 0.
  int min_exponent = kNoMin, max_exponent = kNoMax;
  double squares = 0;  // sum over the finite values; at most the greatest double

  // n elements of f32 or f64, at any alignment; other types are not looked at.
  void add(const std::byte* x, std::size_t count, kernels::Element element);
  void merge(const ValueStatistics& other);
  double rms() const;  // of the finite values; 0 if there are none
  bool operator==(const ValueStatistics&) const = default;
};

// "rms 0.0123, magnitudes from 2^-31 to 2^2, 3.1 % zeros".
std::string words(const ValueStatistics&);
// Counts or indices, most of them?
bool mostly_whole(const ValueStatistics&);
// What speaks against compressing such values, or for another method; a sentence each.
std::vector<std::string> warnings(const ValueStatistics&);

}  // namespace mq
