// A strict reader of JSON, to test what writes it.
#pragma once

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "mpi_quant/base/json.hpp"

namespace mq::test {

struct Json {
  enum class Kind { null, number, string, array, object } kind = Kind::null;
  double number = 0;
  std::string string;  // a \u00XX is the byte XX
  std::vector<Json> items;
  std::map<std::string, Json> members;

  const Json& operator[](const std::string& key) const { return members.at(key); }
  const Json& operator[](std::size_t i) const { return items.at(i); }
  bool has(const std::string& key) const { return members.contains(key); }
};

class JsonReader {
 public:
  // Nothing for what is no JSON, repeats a key, or says true or false, which no writer here does.
  static std::optional<Json> read(std::string_view text) {
    JsonReader reader(text);
    Json out;
    const bool ok = reader.value(out) && (reader.space(), reader.rest_.empty());
    return ok ? std::optional(out) : std::nullopt;
  }

 private:
  explicit JsonReader(std::string_view text) : rest_(text) {}

  void space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\r\t"), rest_.size())); }
  bool take(std::string_view token) {
    space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool value(Json& out) {
    space();
    if (take("null")) return true;
    if (take("[")) return sequence(out, Json::Kind::array, "]");
    if (take("{")) return sequence(out, Json::Kind::object, "}");
    if (rest_.starts_with('"')) {
      out.kind = Json::Kind::string;
      return string(out.string);
    }
    return number(out);
  }
  bool sequence(Json& out, Json::Kind kind, std::string_view end) {
    out.kind = kind;
    if (take(end)) return true;
    do {
      std::string key;
      Json item;
      if (kind == Json::Kind::object && (space(), !string(key) || !take(":"))) return false;
      if (!value(item)) return false;
      if (kind == Json::Kind::array)
        out.items.push_back(std::move(item));
      else if (!out.members.emplace(key, std::move(item)).second)
        return false;
    } while (take(","));
    return take(end);
  }
  bool string(std::string& out) {
    if (!take("\"")) return false;
    while (!rest_.empty() && rest_.front() != '"') {
      const std::size_t bytes = utf8_bytes(rest_);
      if (bytes == 0 || static_cast<unsigned char>(rest_.front()) < 0x20) return false;
      if (rest_.front() == '\\') {
        if (!escape(out)) return false;
      } else {
        out += rest_.substr(0, bytes);
        rest_.remove_prefix(bytes);
      }
    }
    return take("\"");
  }
  bool escape(std::string& out) {
    if (rest_.starts_with("\\\"") || rest_.starts_with("\\\\")) {
      out += rest_[1];
      rest_.remove_prefix(2);
      return true;
    }
    unsigned byte = 0;
    if (rest_.size() < 6 || !rest_.starts_with("\\u00") ||
        std::from_chars(rest_.data() + 4, rest_.data() + 6, byte, 16).ptr != rest_.data() + 6)
      return false;
    out += static_cast<char>(byte);
    rest_.remove_prefix(6);
    return true;
  }
  // Of from_chars JSON lacks leading zeros, a bare point, "inf" and "nan".
  bool number(Json& out) {
    out.kind = Json::Kind::number;
    std::string_view digits = rest_;
    if (digits.starts_with('-')) digits.remove_prefix(1);
    const auto digit = [&](std::size_t i) {
      return i < digits.size() && digits[i] >= '0' && digits[i] <= '9';
    };
    if (!digit(0) || (digits[0] == '0' && digit(1))) return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out.number);
    if (error != std::errc() || end[-1] == '.') return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }

  std::string_view rest_;
};

}  // namespace mq::test
