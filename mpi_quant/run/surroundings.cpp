#include "mpi_quant/run/surroundings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/run/elf.hpp"

namespace mq {
namespace {

std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Undefined behaviour alone needs no place of its own, but its runtime may come with another's.
bool is_sanitizer(std::string_view path) {
  constexpr std::array<std::string_view, 6> kNames{"libasan.",  "libtsan.",   "liblsan.",
                                                   "libubsan.", "libhwasan.", "libclang_rt."};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return file_of(path).starts_with(name); });
}

}  // namespace

void put_sanitizers_first(const std::string& program) {
  std::vector<std::string> first;
  std::vector<std::string> others;
  const auto add = [&](const std::string& name) {
    const bool known = std::any_of(first.begin(), first.end(),
                                   [&](const std::string& other) { return file_of(other) == file_of(name); });
    if (!known) first.push_back(name);
  };
  const char* const text = std::getenv("LD_PRELOAD");
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(": ");
    const std::string name(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (is_sanitizer(name))
      add(name);
    else if (!name.empty())
      others.push_back(name);
  }
  for (const std::string& name : needed_libraries(program_file(program)))
    if (is_sanitizer(name)) add(name);
  first.insert(first.end(), others.begin(), others.end());
  std::string all;
  for (const std::string& name : first) all += (all.empty() ? "" : ":") + name;
  pass_on("LD_PRELOAD", all);
}

std::string container_advice(const std::string& program) {
  constexpr std::array<std::string_view, 11> kStarters{"apptainer", "singularity",  "podman",  "podman-hpc",
                                                       "docker",    "sarus",        "shifter", "ch-run",
                                                       "enroot",    "charliecloud", "udocker"};
  const std::string_view name = file_of(program);
  if (std::find(kStarters.begin(), kStarters.end(), name) == kStarters.end()) return "";
  return std::string(name) +
         " starts the program in a container, which does not have this library: the program would run without it. "
         "Run mpiq-run inside the container, as docs/preload.md says under \"Containers\"";
}

// The file stays open in the program. Its number is a high one, because scripts use low ones, and its name is
// no other's (preload/unused.c).
void watch_for_calls() {
  constexpr int kLeast = 100;
  unsigned long long any = 0;
  if (getrandom(&any, sizeof any, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof any)) return;
  const std::string name = "mpiq-run-" + std::to_string(getpid()) + "-" + std::to_string(any);
  const int low = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (low < 0) return;
  const int descriptor = fcntl(low, F_DUPFD, kLeast);
  close(low);
  if (descriptor >= 0)
    pass_on("MPIQ_RUN", std::to_string(getpid()) + ":" + std::to_string(descriptor) + ":" + name);
}

}  // namespace mq
