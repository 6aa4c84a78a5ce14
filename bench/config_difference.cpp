#include "bench/config_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>

namespace mq::bench {

namespace {

// Where the first mark stands in the text, outside of strings, lists and inner objects; the end of the text
// if nowhere.
std::size_t find_outside(std::string_view text, char mark) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;  // what follows is escaped
      if (c == '"') quoted = false;
    } else if (depth == 0 && c == mark) {
      return i;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return text.size();
}

// As a user writes it on the command line: without quotes and the brackets of a list.
std::string plain(std::string_view value) {
  constexpr std::size_t kLongest = 200;
  if (value.size() >= 2 && value.front() == '[') value = value.substr(1, value.size() - 2);
  std::string out;
  for (const char c : value)
    if (c != '"') out.push_back(c);
  if (out.empty()) return "none";
  return out.size() <= kLongest ? out : out.substr(0, kLongest) + "...";
}

// The members of one JSON object.
std::map<std::string, std::string> members(std::string_view object) {
  std::map<std::string, std::string> out;
  if (object.size() < 2) return out;
  object = object.substr(1, object.size() - 2);
  while (!object.empty()) {
    const std::string_view member = object.substr(0, find_outside(object, ','));
    const std::size_t colon = find_outside(member, ':');
    out[plain(member.substr(0, colon))] = plain(member.substr(std::min(colon + 1, member.size())));
    object.remove_prefix(std::min(member.size() + 1, object.size()));
  }
  return out;
}

}  // namespace

std::string config_difference(std::string_view file, std::string_view now) {
  std::map<std::string, std::string> there = members(file), here = members(now);
  for (const auto& [name, value] : here) there.try_emplace(name, "none");
  std::string out;
  for (const auto& [name, value] : there) {
    const std::string& mine = here.try_emplace(name, "none").first->second;
    if (value != mine)
      out += fmt::format("{}{}: {} in the file, {} now", out.empty() ? "" : "; ", name, value, mine);
  }
  if (out.empty() && file != now) return "in ways that are too long to show";
  return out;
}

}  // namespace mq::bench
