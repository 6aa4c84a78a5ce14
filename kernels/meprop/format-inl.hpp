// The parameters and formats of meprop. meprop.hpp describes the layout.
#pragma once

struct MePropParams {
  static constexpr std::size_t kMostLines = 1024;
  double k;
  std::size_t lines, line;  // lines that are compared; elements of one
  explicit MePropParams(const Params& p)
      : k(p.value[0]),
        lines(static_cast<std::size_t>(p.value[1])),
        line(p.value[2] > 0 ? static_cast<std::size_t>(std::max(p.value[2], p.value[3])) : 64) {}
  std::size_t block() const { return lines * line; }
  std::size_t lines_of(std::size_t n) const { return (n + line - 1) / line; }
  std::size_t most(std::size_t n) const {
    return static_cast<std::size_t>(std::ceil(k * static_cast<double>(lines_of(n))));
  }
  template <class T>
  std::size_t bound(std::size_t n) const {
    return sizeof(std::uint32_t) +
           std::max((lines_of(n) + 7) / 8 + std::min(n, most(n) * line) * sizeof(T), sizeof(T) + (n + 7) / 8);
  }
};

enum MePropFormat : std::uint32_t { kLines, kKept, kLost };
