#include "bench/recording.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "bench/elements.hpp"
#include "bench/random.hpp"

namespace mq::bench {
namespace {

constexpr std::string_view kRank = "{rank}";

Status bad(const std::string& path, std::string_view what) {
  return {Code::bad_argument, fmt::format("{}: {}", path, what)};
}

}  // namespace

std::string path_of_rank(const std::string& path, int rank) {
  std::string text = path;
  const std::string number = std::to_string(rank);
  for (std::size_t at = text.find(kRank); at != std::string::npos; at = text.find(kRank, at + number.size()))
    text.replace(at, kRank.size(), number);
  return text;
}

Result<Recording::File> Recording::map(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not be waited for
  if (fd < 0) return bad(path, std::strerror(errno));
  struct stat info {};
  Status status;
  File file;
  file.wide = path.ends_with(".f64");
  const std::uint64_t width = file.wide ? sizeof(double) : sizeof(float);
  void* data = MAP_FAILED;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    status = bad(path, "is not a file");
  else if (info.st_size == 0)
    status = bad(path, "is empty");
  else if (static_cast<std::uint64_t>(info.st_size) % width != 0)
    status = bad(path, fmt::format("{} bytes are no whole number of {}", info.st_size,
                                   file.wide ? "doubles" : "floats"));
  else
    data = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (status.ok() && data == MAP_FAILED) status = bad(path, std::strerror(errno));
  close(fd);
  if (!status.ok()) return status;
  const auto bytes = static_cast<std::size_t>(info.st_size);
  file.data =
      std::shared_ptr<const void>(data, [bytes](const void* p) { munmap(const_cast<void*>(p), bytes); });
  file.count = bytes / width;
  return file;
}

Result<std::shared_ptr<const Recording>> Recording::open(const std::string& path, int ranks, int mine,
                                                         std::span<const kernels::Element> types,
                                                         std::uint64_t seed) {
  auto recording = std::make_shared<Recording>();
  recording->seed_ = seed;
  const bool own = recording->own_ = path.find(kRank) != std::string::npos;
  for (int rank = 0; rank < (own ? ranks : 1); ++rank) {
    auto file = map(path_of_rank(path, rank));
    if (!file.ok()) return file.status();
    recording->files_.push_back(std::move(*file));
  }
  const File& file = recording->files_[own ? static_cast<std::size_t>(mine) : 0];
  double largest = 0;
  for (std::uint64_t i = 0; i < file.count; ++i) {
    const double x = file.at(i);
    if (!std::isfinite(x)) return bad(path_of_rank(path, mine), fmt::format("element {} is not finite", i));
    largest = std::max(largest, std::abs(x));
  }
  for (const kernels::Element type : types)
    if (!with_type(type, [&]<class T>(T) {
          return std::isfinite(static_cast<double>(static_cast<T>(ranks * largest)));
        }))
      return bad(path_of_rank(path, mine),
                 fmt::format("elements up to {:.3g}: the sum of {} ranks may not be finite in {}", largest,
                             ranks, name(type)));
  return std::shared_ptr<const Recording>(std::move(recording));
}

std::uint64_t Recording::offset(int rank, std::uint64_t copy, std::uint64_t count) const {
  if (copy == 0 && own_) return 0;
  Random random(seed_ ^ (copy * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(rank)));
  (void)random.next();
  return random.next() % count;
}

}  // namespace mq::bench
