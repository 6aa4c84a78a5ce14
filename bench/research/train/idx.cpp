#include "bench/research/train/idx.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>

namespace mq::bench {
namespace {

constexpr std::uint8_t kUnsignedByte = 8;
constexpr std::uint32_t kMostSide = 4096;

class IdxFile {
 public:
  // Opens the file of this name, or of the name with .gz. zlib reads both kinds.
  explicit IdxFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose) {
    if (file_) return;
    path_ += ".gz";
    file_.reset(gzopen(path_.c_str(), "rb"));
  }
  // The sizes of an array of bytes with kDimensions dimensions.
  template <std::size_t kDimensions>
  Result<std::array<std::uint32_t, kDimensions>> head() {
    if (!file_) return bad("cannot be read");
    std::array<std::uint8_t, 4 + 4 * kDimensions> bytes{};
    if (!read(bytes.data(), bytes.size())) return bad("ends in its header");
    if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedByte || bytes[3] != kDimensions)
      return bad(fmt::format("is no IDX file of bytes with {} dimensions", kDimensions));
    std::array<std::uint32_t, kDimensions> sizes{};
    for (std::size_t d = 0; d < kDimensions; ++d)
      for (std::size_t i = 0; i < 4; ++i) sizes[d] = sizes[d] << 8 | bytes[4 + 4 * d + i];
    return sizes;
  }
  bool read(std::uint8_t* to, std::size_t bytes) {
    constexpr std::size_t kMost = std::size_t{1} << 30;  // zlib counts in an int
    for (std::size_t done = 0; done < bytes;) {
      const auto piece = static_cast<unsigned>(std::min(kMost, bytes - done));
      const int got = gzread(file_.get(), to + done, piece);
      if (got <= 0) return false;
      done += static_cast<std::size_t>(got);
    }
    return true;
  }
  Status bad(const std::string& why) const { return {Code::bad_argument, fmt::format("{} {}", path_, why)}; }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

Result<Images> read_images(const std::string& folder, const std::string& name, std::size_t most) {
  IdxFile pictures(fmt::format("{}/{}-images-idx3-ubyte", folder, name)),
      labels(fmt::format("{}/{}-labels-idx1-ubyte", folder, name));
  const auto shape = pictures.head<3>();
  if (!shape.ok()) return shape.status();
  const auto length = labels.head<1>();
  if (!length.ok()) return length.status();
  const auto [count, rows, columns] = *shape;
  if ((*length)[0] != count)
    return labels.bad(fmt::format("has {} labels for {} images", (*length)[0], count));
  if (count == 0 || rows == 0 || columns == 0 || rows > kMostSide || columns > kMostSide)
    return pictures.bad(fmt::format("has {} images of {} x {}", count, rows, columns));
  Images images{most == 0 ? count : std::min<std::size_t>(count, most), rows, columns, {}, {}};
  std::vector<std::uint8_t> bytes(images.size());
  // Reads image by image, so that a header with a wrong count allocates no memory.
  for (std::size_t i = 0; i < images.count; ++i) {
    if (!pictures.read(bytes.data(), bytes.size()))
      return pictures.bad(fmt::format("ends after {} of {} images", i, count));
    for (const std::uint8_t byte : bytes) images.pixels.push_back(static_cast<float>(byte) / 255);
    std::uint8_t label = 0;
    if (!labels.read(&label, 1)) return labels.bad(fmt::format("ends after {} of {} labels", i, count));
    if (label > 9) return labels.bad(fmt::format("has label {}", label));
    images.labels.push_back(label);
  }
  return images;
}

}  // namespace mq::bench
