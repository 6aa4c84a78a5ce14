// Words and numbers of the control language. Its parser and its printer share them.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"

namespace mq {

inline constexpr std::string_view kExact = "mpi", kMemory = "memory", kAuto = "auto";
inline constexpr std::string_view kAbsolute = "abs:", kFeedback = "feedback";
inline constexpr std::array<std::string_view, 4> kIdentities{"off", "key", "address", "sequence"};
inline constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
inline constexpr int kNoMax = std::numeric_limits<int>::max();
inline constexpr std::int64_t kExactIntegers = std::int64_t{1} << 53;  // every integer up to here is a double

// name_of(item) of all items, with `separator` between them.
template <class Range, class Name>
std::string joined(const Range& range, Name name_of, std::string_view separator, std::string out = "") {
  for (const auto& item : range) out.append(out.empty() ? "" : separator).append(name_of(item));
  return out;
}

// "64K": with the largest suffix that divides the number.
inline std::string size_text(std::uint64_t bytes) {
  std::string suffix;
  for (const char c : {'K', 'M', 'G'}) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    suffix = c;
  }
  return std::to_string(bytes) + suffix;
}

// "64K-1M", "64K-".
inline std::string size_range_text(std::uint64_t first, std::uint64_t end) {
  return size_text(first) + "-" + (end == kNoEnd ? "" : size_text(end));
}

// "4", "4-8", "4-".
inline std::string rank_range_text(int first, int last) {
  if (first == last) return std::to_string(first);
  return std::to_string(first) + "-" + (last == kNoMax ? "" : std::to_string(last));
}

inline std::string number(double v) {
  std::array<char, 64> text;
  const bool integer = v == std::floor(v) && std::abs(v) <= static_cast<double>(kExactIntegers);
  const auto end = integer ? std::to_chars(text.begin(), text.end(), static_cast<std::int64_t>(v)).ptr
                           : std::to_chars(text.begin(), text.end(), v).ptr;
  return {text.begin(), end};
}

// The value of a parameter as text.
inline std::string value_text(const kernels::ParamSpec& spec, double value) {
  return spec.kind == kernels::ParamKind::word ? std::string(spec.words[static_cast<std::size_t>(value)])
                                               : number(value);
}

}  // namespace mq
