// Which known word somebody may have meant who wrote another one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

namespace mq {

// How many letters have to be added, dropped or replaced to make b of a.
inline std::size_t distance_of_words(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t before = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = before + (a[i] != b[j]);
      before = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, before + 1});
    }
  }
  return row.back();
}

// The one of `words` (texts of any type) that is most like the given one; null if none has at most two wrong
// letters.
template <class Words>
auto meant_by(std::string_view given, const Words& words) -> decltype(&*words.begin()) {
  constexpr std::size_t kMostWrong = 2;
  const auto meant = std::min_element(words.begin(), words.end(), [&](const auto& a, const auto& b) {
    return distance_of_words(given, a) < distance_of_words(given, b);
  });
  return meant != words.end() && distance_of_words(given, *meant) <= kMostWrong ? &*meant : nullptr;
}

}  // namespace mq
