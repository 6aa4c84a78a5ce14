// Describes the values of a program's vectors (range, zeros, whole numbers, NaN) for people who must decide
// whether the values may be rounded. Uses no MPI.
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
  // Integers other than 0, up to 2^24 (f32) or 2^53 (f64). Beyond that every number is an integer.
  std::uint64_t whole = 0;
  std::uint64_t nonfinite = 0;
  // The exponent e with 2^e <= |v| < 2^(e+1), over the values that are finite and not 0.
  int min_exponent = kNoMin, max_exponent = kNoMax;
  double squares = 0;  // over the finite values; at most the largest double

  // n elements of f32 or f64, at any alignment. Other types are ignored.
  void add(const std::byte* x, std::size_t count, kernels::Element element);
  void merge(const ValueStatistics& other);
  double rms() const;  // of the finite values; 0 if there are none
  bool operator==(const ValueStatistics&) const = default;
};

// "rms 0.0123, magnitudes from 2^-31 to 2^2, 3.1 % zeros".
std::string words(const ValueStatistics&);
// Whether most values are counts or indices.
bool mostly_whole(const ValueStatistics&);
// Reasons not to compress such values, or to use another method. Each is a sentence.
std::vector<std::string> warnings(const ValueStatistics&);

}  // namespace mq
