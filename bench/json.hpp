// A string as JSON text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace mq::bench {

inline std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out.append(1, c);
  }
  return out + "\"";
}

}  // namespace mq::bench
