// Numbers and columns of texts for people. Several reports share them. The C library's formatting is not
// used, because it depends on the program's locale.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace mq {

// fixed(3.14159, 3) is "3.142".
inline std::string fixed(double v, int digits) {
  std::array<char, 400> text;  // the longest double has 309 digits before the point
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v, std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

// About three digits: "12.3", "0.0417", "1.2e-07".
inline std::string short_number(double v) {
  const double magnitude = std::abs(v);
  if (v == 0 || (magnitude >= 1e-3 && magnitude < 1e6))
    return fixed(v, magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 || v == 0 ? 2 : 4);
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v, std::chars_format::scientific, 1);
  return {text.data(), end.ptr};
}

// percent(0.034) is "3.4 %". Small shares keep a digit that is not 0.
inline std::string percent(double share) {
  const double p = 100 * share;
  if (p > 0 && p < 1e-4) return "below 0.0001 %";
  return fixed(p, p == 0 || p >= 10 ? 0 : p >= 1 ? 1 : p >= 0.01 ? 2 : 4) + " %";
}

// Filled with blanks up to `width`.
inline std::string right_aligned(std::string_view text, std::size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ').append(text);
}
inline std::string left_aligned(std::string_view text, std::size_t width) {
  return std::string(text).append(text.size() < width ? width - text.size() : 0, ' ');
}

}  // namespace mq
