#include "bench/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace mq::bench {
namespace {

// the column has 48 characters; the "+n" of a bucket takes some of them
constexpr std::size_t kLongestName = 40;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Result<std::vector<Layer>> parse_layers(std::string_view text) {
  std::vector<Layer> layers;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || (number == 1 && line == "name,count")) continue;
    const std::size_t comma = line.rfind(',');
    const std::string_view name = trim(line.substr(0, std::min(comma, line.size())));
    const std::string_view digits = comma == std::string_view::npos ? "" : trim(line.substr(comma + 1));
    std::uint64_t count = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (name.empty() || name.size() > kLongestName || error != std::errc{} ||
        stop != digits.data() + digits.size() || count == 0 || count > kMostElements)
      return Status{
          Code::bad_argument,
          fmt::format("line {}: '{}' is not NAME,COUNT with a name of 1 to {} characters and a number of "
                      "elements from 1 on",
                      number, line.substr(0, 60), kLongestName)};
    layers.push_back({std::string(name), count});
  }
  if (layers.empty()) return Status{Code::bad_argument, "there is no layer in it"};
  return layers;
}

std::vector<Layer> fuse_layers(const std::vector<Layer>& layers, std::uint64_t most_elements) {
  std::vector<Layer> buckets;
  std::size_t more = 0;
  const auto close = [&] {
    if (more > 0) buckets.back().name += fmt::format("+{}", more);
    more = 0;
  };
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (!buckets.empty() && buckets.back().count + layer->count <= most_elements) {
      buckets.back().count += layer->count;
      ++more;
      continue;
    }
    close();
    buckets.push_back(*layer);
  }
  close();
  return buckets;
}

}  // namespace mq::bench
