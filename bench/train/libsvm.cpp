#include "bench/train/libsvm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "bench/lines.hpp"

namespace mq::bench {
namespace {

constexpr std::uint32_t kMostFeatures = std::uint32_t{1} << 26;  // every rank has vectors of so many elements

// Takes the next word of a line; it is empty at the end.
std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

template <class T>
bool number(std::string_view word, T& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}
bool finite_number(std::string_view word, double& value) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-') word.remove_prefix(1);
  return number(word, value) && std::isfinite(value);
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), lines_(path) {}
  Result<Examples> read(std::size_t most);

 private:
  Status bad(std::string_view why) const {
    return {Code::bad_argument, fmt::format("{}:{}: {}", path_, lines_.number(), why)};
  }
  Status take(std::string_view line);
  Status take_label(std::string_view word);
  Status take_entry(std::string_view word);

  std::string path_;
  Lines lines_;
  Examples examples_;
  std::vector<double> labels_;  // as in the file: at most two
};

Status Reader::take_label(std::string_view word) {
  double label = 0;
  if (!finite_number(word, label)) return bad(fmt::format("'{}' is no label", word.substr(0, 40)));
  std::size_t which = 0;
  while (which < labels_.size() && labels_[which] != label) ++which;
  if (which == 2)
    return bad(fmt::format("{} is a third label, beside {} and {}", label, labels_[0], labels_[1]));
  if (which == labels_.size()) labels_.push_back(label);
  examples_.label.push_back(static_cast<std::int8_t>(which));
  return {};
}

Status Reader::take_entry(std::string_view word) {
  const std::size_t colon = word.find(':');
  std::uint32_t index = 0;
  double value = 0;
  if (colon == std::string_view::npos || !number(word.substr(0, colon), index) ||
      !finite_number(word.substr(colon + 1), value) || !std::isfinite(static_cast<float>(value)))
    return bad(fmt::format("'{}' is not INDEX:VALUE with a float as value", word.substr(0, 40)));
  if (index == 0 || index > kMostFeatures)
    return bad(fmt::format("index {} is not from 1 to {}", index, kMostFeatures));
  if (examples_.index.size() > examples_.begin.back() && index <= examples_.index.back() + 1)
    return bad(fmt::format("index {} is not greater than the one before", index));
  examples_.index.push_back(index - 1);
  examples_.value.push_back(static_cast<float>(value));
  examples_.features = std::max<std::size_t>(examples_.features, index);
  return {};
}

Status Reader::take(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::string_view word = next_word(line);
  if (word.empty()) return {};
  if (const Status s = take_label(word); !s.ok()) return s;
  for (word = next_word(line); !word.empty(); word = next_word(line))
    if (const Status s = take_entry(word); !s.ok()) return s;
  examples_.begin.push_back(examples_.index.size());
  return {};
}

Result<Examples> Reader::read(std::size_t most) {
  if (!lines_.open()) return Status{Code::bad_argument, fmt::format("{}: {}", path_, std::strerror(errno))};
  for (std::string_view line; (most == 0 || examples_.count() < most) && lines_.next(line);)
    if (const Status s = take(line); !s.ok()) return s;
  if (lines_.failed()) return bad("the rest cannot be read: the file is damaged");
  if (labels_.size() < 2)
    return bad(fmt::format("the file ends with {} different labels, not 2", labels_.size()));
  if (examples_.features == 0) return bad("the file ends without a feature");
  const bool first_is_less = labels_[0] < labels_[1];
  for (std::int8_t& label : examples_.label) label = (label == 0) == first_is_less ? -1 : 1;
  return std::move(examples_);
}

}  // namespace

Result<Examples> read_libsvm(const std::string& path, std::size_t most) { return Reader(path).read(most); }

}  // namespace mq::bench
