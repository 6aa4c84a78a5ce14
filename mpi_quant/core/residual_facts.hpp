// What must be the same on all ranks about their residuals, as lines that collective_check() compares and
// shows. The functions that take a list of residuals use it, and so does the library that writes a list to a
// file.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "mpi_quant.h"

namespace mq {

// The text in an array. The null character at its end may be missing.
template <std::size_t Size>
std::string_view text_in(const char (&text)[Size]) {
  return {text, static_cast<std::size_t>(std::find(text, text + Size, '\0') - text)};
}

// 0 stands for 1: programs that were written for an older library set no number.
inline int arrays_of(const MPIQ_Residual& r) { return std::max(1, r.arrays); }

inline std::string facts_of(std::span<const MPIQ_Residual> list) {
  std::string facts;
  for (const MPIQ_Residual& r : list) {
    std::array<char, 40> settled{};
    if (!(r.settled < 0)) std::snprintf(settled.data(), settled.size(), ", settled %.17g", r.settled);
    facts.append("key \"").append(text_in(r.key)).append("\", ").append(std::to_string(r.count)).append(" ");
    facts.append(text_in(r.element)).append(settled.data());
    if (r.calls != 0) facts.append(", after ").append(std::to_string(r.calls)).append(" calls");
    if (arrays_of(r) > 1) facts.append(", ").append(std::to_string(r.arrays)).append(" arrays");
    if (r.stamp != 0)
      facts.append(", estimates #")
          .append(std::to_string(r.stamp))
          .append(" of ")
          .append(std::to_string(r.since));
    facts.push_back('\0');
  }
  return facts;
}

}  // namespace mq
