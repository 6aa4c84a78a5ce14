#include "bench/seal.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mq::bench {
namespace {

constexpr std::string_view kMark = "\nmpiq-bench crc32 ";  // scripts/mpiq_results.py looks for the same text
constexpr std::size_t kLength = kMark.size() + 9;          // eight hexadecimal digits and the end of the line

// Offsets in HDF5's superblock: its version and, by version, the end of the file. We write version 0, whatever HDF5 would take by
// itself; files may come from elsewhere.
constexpr std::size_t kVersionAt = 8;
constexpr std::array<std::size_t, 4> kEndAt{40, 44, 28, 28};

std::string line_for(std::span<const std::byte> image) {
  const auto sum =
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(image.data()), image.size());
  return fmt::format("{}{:08x}\n", kMark, sum);
}

// Whether the image is longer than HDF5 knows.
bool has_more(std::span<const std::byte> image) {
  const auto version =
      image.size() > kVersionAt ? static_cast<std::size_t>(image[kVersionAt]) : kEndAt.size();
  std::uint64_t end = 0;
  if (version >= kEndAt.size() || image.size() < kEndAt[version] + sizeof end) return false;
  for (std::size_t i = sizeof end; i-- > 0;)
    end = end << 8 | static_cast<std::uint64_t>(image[kEndAt[version] + i]);
  return end < image.size();
}

}  // namespace

void seal(std::vector<std::byte>& image) {
  const std::string line = line_for(image);
  const auto* bytes = reinterpret_cast<const std::byte*>(line.data());
  image.insert(image.end(), bytes, bytes + line.size());
}

Status unseal(std::vector<std::byte>& image) {
  const std::span all(image);
  const std::size_t content = all.size() - std::min(all.size(), kLength);
  const std::string_view last(reinterpret_cast<const char*>(image.data()) + content, all.size() - content);
  if (last.starts_with(kMark)) {
    if (last != line_for(all.first(content)))
      return {Code::bad_argument, "its checksum does not fit its contents"};
    image.resize(content);
  } else if (has_more(all)) {
    return {Code::bad_argument, "its checksum is damaged"};
  }
  return {};
}

}  // namespace mq::bench
