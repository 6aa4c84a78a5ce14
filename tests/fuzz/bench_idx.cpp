// The files of MNIST, which mpiq-train reads: two bytes of length, that much of the images, the rest labels.
#include "bench/research/train/idx.hpp"

#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz.hpp"

namespace {

// A folder of this process, which goes when it ends.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("mpiq-fuzz-idx-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }
  void put(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    mq::fuzz::require(file.good(), "files can be written");
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mq::fuzz::require;
  static const Folder folder;
  mq::fuzz::Bytes bytes(data, size);
  folder.put("t-images-idx3-ubyte", bytes.take(bytes.take<std::uint16_t>()));
  folder.put("t-labels-idx1-ubyte", bytes.rest());
  const auto images = mq::bench::read_images(folder.path(), "t");
  if (!images.ok()) {
    require(!images.status().text().empty(), "files that are refused are refused with a reason");
    return 0;
  }
  auto found = images;
  require(found->count > 0 && found->labels.size() == found->count, "every image has a label");
  require(found->pixels.size() == found->count * found->size(), "every image is whole");
  for (const float pixel : found->pixels) require(pixel >= 0 && pixel <= 1, "pixels are from 0 to 1");
  for (const std::uint8_t label : found->labels) require(label < 10, "labels are digits");
  return 0;
}
