// A table of the report, for people.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mq {

// The number of UTF-8 characters.
inline std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// A table whose columns are as wide as their contents. The last column takes several lines if it is too long.
class Table {
 public:
  enum class Side { left, right };
  struct Column {
    std::string_view name;
    Side side = Side::right;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {
    for (const Column& column : columns_) {
      widths_.push_back(width(column.name));
      head_.emplace_back(column.name);
    }
  }
  void row(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    for (std::size_t i = 0; i + 1 < cells.size(); ++i) widths_[i] = std::max(widths_[i], width(cells[i]));
    rows_.push_back(std::move(cells));
  }
  std::string text(const std::string& title) const {
    std::string out = "\n" + title + "\n" + line(head_);
    for (const auto& cells : rows_) out += line(cells);
    return out;
  }

 private:
  static constexpr std::size_t kLineWidth = 120;  // if the contents allow it
  // The least width of the last column; a line may be longer for it.
  static constexpr std::size_t kLastWidth = 26;

  std::string line(const std::vector<std::string>& cells) const {
    std::string out = "  ";
    for (std::size_t i = 0; i + 1 < cells.size(); ++i) {
      const std::string gap(widths_[i] - width(cells[i]), ' ');
      out.append(columns_[i].side == Side::left ? cells[i] + gap : gap + cells[i]).append("  ");
    }
    return (out + wrapped(cells.back(), width(out))).append("\n");
  }
  // Breaks lines between the items of a list.
  static std::string wrapped(std::string_view rest, std::size_t indent) {
    std::string out;
    const std::size_t end = std::max(kLineWidth, indent + kLastWidth);
    std::size_t used = indent;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(", ");
      const std::string_view item = rest.substr(0, comma == std::string_view::npos ? comma : comma + 1);
      if (used > indent && used + 1 + width(item) > end) {
        out.append("\n").append(indent, ' ');
        used = indent;
      }
      out.append(used > indent ? " " : "").append(item);
      used += width(item) + (used > indent ? 1 : 0);
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
    return out;
  }

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mq
