// Strings and numbers as JSON text.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace mq {

// The length of the well-formed UTF-8 character at the beginning of text. 0 if there is none.
inline std::size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (text.empty() || first < 0x80) return text.empty() ? 0 : 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // The second byte shows overlong forms, surrogates and code points beyond U+10FFFF.
  const unsigned second = byte(1);
  const bool sane = first >= 0xc2 && first <= 0xf4 && (first != 0xe0 || second >= 0xa0) &&
                    (first != 0xed || second < 0xa0) && (first != 0xf0 || second >= 0x90) &&
                    (first != 0xf4 || second < 0x90);
  return sane ? size : 0;
}

// Turns any bytes into valid JSON. Bytes that are not UTF-8 are escaped as if they were Latin-1.
inline std::string json_quote(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (bytes == 0 || c < 0x20)
      out.append("\\u00").append(1, digits[c >> 4]).append(1, digits[c & 15]);
    else if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, text.front());
    else
      out.append(text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out + "\"";
}

// The shortest text of the value. JSON has finite numbers only: all others become null.
inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 64> text;
  return {text.begin(), std::to_chars(text.begin(), text.end(), value).ptr};
}

}  // namespace mq
