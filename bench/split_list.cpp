#include "bench/split_list.hpp"

#include <fmt/format.h>

namespace mq::bench {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

Result<std::vector<std::string>> split_list(std::string_view text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '(') ++depth;
    if (c == ')' && --depth < 0)
      return bad_argument(fmt::format("')' without '(' at character {} of '{}'", i + 1, text));
    if (i == text.size() && depth > 0) return bad_argument(fmt::format("'(' without ')' in '{}'", text));
    if (c != ',' || depth > 0) continue;
    const std::string_view word = trim(text.substr(begin, i - begin));
    if (word.empty()) return bad_argument(fmt::format("empty word at character {} of '{}'", begin + 1, text));
    words.emplace_back(word);
    begin = i + 1;
  }
  return words;
}

}  // namespace mq::bench
