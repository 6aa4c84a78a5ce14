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
#include <filesystem>
#include <system_error>
#include <utility>

#include "bench/elements.hpp"
#include "bench/random.hpp"

namespace mq::bench {
namespace {

constexpr std::size_t kMostDigits = 18;  // a number of 64 bits holds them
constexpr std::string_view kRank = "{rank}", kStep = "{step}", kLayer = "{layer}";

Status bad(const std::string& path, std::string_view what) {
  return {Code::bad_argument, fmt::format("{}: {}", path, what)};
}

std::string replaced(std::string text, std::string_view word, const std::string& by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

// The digits that stand for {step} in the names of the existing files, ascending. `path` has no other words
// in braces.
std::vector<std::string> steps_of(const std::string& path) {
  namespace fs = std::filesystem;
  const std::size_t at = path.find(kStep), slash = path.rfind('/', at);
  const std::size_t end = std::min(path.find('/', at), path.size());
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string before = path.substr(begin, at - begin);
  const std::string after = path.substr(at + kStep.size(), end - at - kStep.size());
  std::vector<std::string> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.size() <= before.size() || !name.starts_with(before)) continue;
    const std::size_t stop = std::min(name.find_first_not_of("0123456789", before.size()), name.size());
    const std::string digits = name.substr(before.size(), stop - before.size());
    if (digits.empty() || digits.size() > kMostDigits) continue;
    if (name.substr(stop) == replaced(after, kStep, digits) && fs::exists(replaced(path, kStep, digits)))
      steps.push_back(digits);
  }
  const auto number = [](const std::string& digits) { return std::stoull(digits); };
  std::sort(steps.begin(), steps.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(number(a), a) < std::pair(number(b), b);
  });
  return steps;
}

}  // namespace

bool has_step(const std::string& path) { return path.find(kStep) != std::string::npos; }
bool has_layer(const std::string& path) { return path.find(kLayer) != std::string::npos; }

std::string path_of_rank(const std::string& path, int rank) {
  return replaced(path, kRank, std::to_string(rank));
}

Result<Recording::File> Recording::map(const std::string& path) {
  // O_NONBLOCK: must not wait for a pipe
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

Status Recording::check(const File& file, const std::string& path, int ranks,
                        std::span<const kernels::Element> types) const {
  double largest = 0;
  for (std::uint64_t i = 0; i < file.count; ++i) {
    const double x = file.at(i);
    if (!std::isfinite(x)) return bad(path, fmt::format("element {} is not finite", i));
    largest = std::max(largest, std::abs(x));
  }
  for (const kernels::Element type : types)
    if (!with_type(type, [&]<class T>(T) {
          return std::isfinite(static_cast<double>(static_cast<T>(ranks * largest)));
        }))
      return bad(path, fmt::format("elements up to {:.3g}: the sum of {} ranks may not be finite in {}",
                                   largest, ranks, name(type)));
  return {};
}

Result<std::shared_ptr<const Recording>> Recording::open(const std::string& path, int ranks, int mine,
                                                         std::span<const kernels::Element> types,
                                                         std::uint64_t seed,
                                                         const std::vector<std::string>& layers) {
  auto recording = std::make_shared<Recording>();
  recording->seed_ = seed;
  const bool own = recording->own_ = path.find(kRank) != std::string::npos;
  recording->ranks_ = own ? static_cast<std::size_t>(ranks) : 1;
  recording->layers_ = has_layer(path) ? layers : std::vector<std::string>{""};
  if (recording->layers_.empty()) return bad(path, "there are no layers to stand for {layer}");
  std::vector<std::string> steps{""};
  if (has_step(path)) steps = steps_of(path_of_rank(replaced(path, kLayer, recording->layers_.front()), 0));
  if (steps.empty()) return bad(path, "there is no file with a number in place of {step}");
  recording->steps_ = steps.size();
  for (const std::string& layer : recording->layers_)
    for (const std::string& step : steps)
      for (std::size_t rank = 0; rank < recording->ranks_; ++rank) {
        const std::string of_rank = path_of_rank(path, static_cast<int>(rank));
        const std::string name = replaced(replaced(of_rank, kLayer, layer), kStep, step);
        auto file = map(name);
        if (!file.ok()) return file.status();
        if (!own || rank == static_cast<std::size_t>(mine))
          if (Status s = recording->check(*file, name, ranks, types); !s.ok()) return s;
        recording->files_.push_back(std::move(*file));
      }
  return std::shared_ptr<const Recording>(std::move(recording));
}

std::uint64_t Recording::first(const std::string& layer, std::size_t step) const {
  const auto at = std::find(layers_.begin(), layers_.end(), layer);
  const auto number = at == layers_.end() ? std::size_t{0} : static_cast<std::size_t>(at - layers_.begin());
  return (number * steps_ + step % steps_) << kPageBits;
}

std::uint64_t Recording::offset(int rank, std::uint64_t copy, std::uint64_t count) const {
  if (copy == 0 && own_) return 0;
  Random random(seed_ ^ (copy * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(rank)));
  (void)random.next();
  return random.next() % count;
}

}  // namespace mq::bench
