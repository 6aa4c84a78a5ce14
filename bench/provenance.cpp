#include "bench/provenance.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace mq::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMicrowatt = 1e-6;

std::optional<double> as_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::nullopt : std::optional(value);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// What systemd and the programs that make containers write. Any other text may be the user's own.
bool is_container(std::string_view word) {
  constexpr std::array<std::string_view, 12> kKnown{"docker",      "podman",         "oci",   "lxc",
                                                    "lxc-libvirt", "systemd-nspawn", "rkt",   "wsl",
                                                    "flatpak",     "proot",          "pouch", "vz"};
  return std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end();
}

// intel_pstate says that it is off, all other drivers that it is on.
std::int8_t turbo(const std::string& root) {
  const std::string cpu = root + "/sys/devices/system/cpu/";
  const std::string off = first_line(cpu + "intel_pstate/no_turbo"), on = first_line(cpu + "cpufreq/boost");
  if (off == "0" || off == "1") return off == "0" ? 1 : 0;
  return on == "0" || on == "1" ? static_cast<std::int8_t>(on == "1") : -1;
}

double power_limit_W(const std::string& root) {
  double sum = 0;
  for (const std::string& folder : power_zones(root + "/sys/class/powercap")) {
    if (!first_line(folder + "/name").starts_with("package")) continue;
    for (int i = 0; i < 4; ++i) {
      const std::string constraint = fmt::format("{}/constraint_{}_", folder, i);
      if (first_line(constraint + "name") != "long_term") continue;
      if (const auto limit = as_number(first_line(constraint + "power_limit_uw"))) sum += *limit * kMicrowatt;
    }
  }
  return sum > 0 ? sum : std::numeric_limits<double>::quiet_NaN();
}

std::string firmware(const std::string& root) {
  std::string text;
  for (const char* part : {"bios_vendor", "bios_version", "bios_date"}) {
    const std::string word = first_line(root + "/sys/class/dmi/id/" + part);
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string microcode(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (const std::size_t colon = line.find(": ");
        line.starts_with("microcode") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "";
}

// "" without a sign of one: there are containers that leave none.
std::string container(const std::string& root) {
  if (std::string word = container_of_environment(); !word.empty()) return word;
  if (exists(root + "/.dockerenv")) return "docker";
  if (exists(root + "/run/.containerenv")) return "podman";
  if (exists(root + "/.singularity.d") || exists(root + "/singularity")) return "apptainer";
  if (const std::string word = first_line(root + "/run/systemd/container"); is_container(word)) return word;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    for (const char* word : {"kubepods", "containerd", "docker", "libpod", "lxc"})
      if (line.find(word) != std::string::npos) return word;
  return "";
}

// The least of what the control group and those above it allow. "max" is no limit.
double cpu_quota(const std::string& root) {
  std::string group, old_group;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // NUMBER:CONTROLLERS:PATH
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") group = line.substr(second + 1);
    if (controllers.find(",cpu,") != std::string::npos) old_group = line.substr(second + 1);
  }
  double least = std::numeric_limits<double>::infinity();
  const auto take = [&](const std::optional<double>& quota, const std::optional<double>& period) {
    if (quota && period && *quota > 0 && *period > 0) least = std::min(least, *quota / *period);
  };
  for (fs::path path = group; !path.empty(); path = path.parent_path()) {
    const std::string line = first_line(root + "/sys/fs/cgroup" + path.string() + "/cpu.max");
    const std::size_t blank = line.find(' ');
    if (blank != std::string::npos) take(as_number(line.substr(0, blank)), as_number(line.substr(blank)));
    if (path == path.root_path()) break;
  }
  for (fs::path path = old_group; !path.empty(); path = path.parent_path()) {
    const std::string folder = root + "/sys/fs/cgroup/cpu" + path.string();
    take(as_number(first_line(folder + "/cpu.cfs_quota_us")),
         as_number(first_line(folder + "/cpu.cfs_period_us")));
    if (path == path.root_path()) break;
  }
  return least < std::numeric_limits<double>::infinity() ? least : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::vector<std::string> power_zones(const std::string& folder) {
  std::vector<std::string> zones;
  std::error_code none;
  for (const auto& zone : fs::directory_iterator(folder, none))
    if (zone.path().filename().string().starts_with("intel-rapl:")) zones.push_back(zone.path().string());
  std::sort(zones.begin(), zones.end());
  return zones;
}

void read_provenance(NodeRow& node, const std::string& root) {
  node.turbo = turbo(root);
  node.power_limit_W = power_limit_W(root);
  node.firmware = firmware(root);
  node.microcode = microcode(root);
  node.container = container(root);
  node.cpu_quota = cpu_quota(root);
}

std::string container_of_environment() {
  for (const auto& [variable, word] : {std::pair{"APPTAINER_NAME", "apptainer"},
                                       {"SINGULARITY_NAME", "apptainer"},
                                       {"ENROOT_ROOTFS", "enroot"},
                                       {"SHIFTER_RUNTIME", "shifter"}})
    if (std::getenv(variable) != nullptr) return word;
  const char* const named = std::getenv("container");
  return named != nullptr && is_container(named) ? named : "";
}

std::string numa_policy() {
  constexpr int kLocal = 4;
  constexpr unsigned kFlags = 0xe000;  // of the mode: static nodes, relative nodes, balancing
  constexpr std::array<const char*, 7> kWords{"default", "preferred", "bind",    "interleave",
                                              "local",   "preferred", "weighted"};
  std::array<unsigned long, 16> nodes{};
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  int mode = 0;
  if (syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * kBits, nullptr, 0UL) != 0) return "";
  const auto word = static_cast<std::size_t>(static_cast<unsigned>(mode) & ~kFlags);
  if (word >= kWords.size()) return "";
  std::string text = kWords[word];
  if (word == 0 || word == kLocal) return text;
  char separator = ' ';
  const auto has = [&](std::size_t i) { return (nodes[i / kBits] >> (i % kBits) & 1) != 0; };
  for (std::size_t i = 0; i < nodes.size() * kBits; ++i) {
    if (!has(i)) continue;
    std::size_t last = i;
    while (last + 1 < nodes.size() * kBits && has(last + 1)) ++last;
    text += separator + (last > i ? fmt::format("{}-{}", i, last) : fmt::format("{}", i));
    separator = ',';
    i = last;
  }
  return text;
}

}  // namespace mq::bench
