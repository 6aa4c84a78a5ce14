#include "mpi_quant/base/memory_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace mq {
namespace {

// Adds the limits in a folder and in those above it, up to the mount.
void add_limits(std::string folder, const std::string& mount, const char* name, std::uint64_t& least) {
  for (;;) {
    std::ifstream file(folder + "/" + name);
    if (std::uint64_t bytes = 0; file >> bytes) least = std::min(least, bytes);  // "max" is no number
    if (folder.size() <= mount.size()) return;
    folder.resize(std::max(folder.rfind('/'), mount.size()));
  }
}

}  // namespace

std::uint64_t limit_of_groups(const std::string& file, const std::string& mount) {
  std::uint64_t least = UINT64_MAX;
  std::ifstream groups(file);
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") add_limits(mount + path, mount, "memory.max", least);
    if (controllers.find(",memory,") != std::string::npos)
      add_limits(mount + "/memory" + path, mount + "/memory", "memory.limit_in_bytes", least);
  }
  return least;
}

std::uint64_t memory_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  const std::uint64_t machine = pages <= 0 || page_bytes <= 0 ? UINT64_MAX
                                                              : static_cast<std::uint64_t>(pages) *
                                                                    static_cast<std::uint64_t>(page_bytes);
  return std::min(machine, limit_of_groups("/proc/self/cgroup", "/sys/fs/cgroup"));
}

}  // namespace mq
