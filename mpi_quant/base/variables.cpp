#include "mpi_quant/base/variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

namespace mq {
namespace {

// Those of env.hpp.
constexpr std::array<std::string_view, 19> kVariables{
    "MPIQ_POLICY",     "MPIQ_POLICY_FILE", "MPIQ_MODE",          "MPIQ_REPORT",    "MPIQ_ADVISE_ERROR",
    "MPIQ_RESIDUALS",  "MPIQ_ISA",         "MPIQ_THREADS",       "MPIQ_SEED",      "MPIQ_WATCHDOG",
    "MPIQ_CUDA",       "MPIQ_CUDA_SYNC",   "MPIQ_CUDA_WIRE",     "MPIQ_CUDA_TIME", "MPIQ_CUDA_SEGMENTS",
    "MPIQ_NODE_RANKS", "MPIQ_KNOWLEDGE",   "MPIQ_KNOWLEDGE_OUT", "MPIQ_WAIT"};
// Those of the project's programs, which are like none of the above by accident only.
constexpr std::array<std::string_view, 3> kOthers{"MPIQ_RUN", "MPIQ_SITE", "MPIQ_JOBS"};

// How many letters have to be added, dropped or replaced to make b of a.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t before = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = before + (a[i] != b[j]);
      before = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, before + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<Mistyped> mistyped_variables() {
  constexpr std::size_t kMostWrong = 2;
  std::vector<Mistyped> found;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    std::string_view name = *variable;
    name = name.substr(0, name.find('='));
    const auto is_known = [&](const auto& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!name.starts_with("MPIQ") || is_known(kVariables) || is_known(kOthers)) continue;
    const auto* const meant = std::min_element(
        kVariables.begin(), kVariables.end(),
        [&](std::string_view a, std::string_view b) { return distance(name, a) < distance(name, b); });
    if (distance(name, *meant) <= kMostWrong) found.push_back({std::string(name), std::string(*meant)});
  }
  return found;
}

std::string words(const Mistyped& mistyped) {
  return mistyped.name + " is no variable of this library: is " + mistyped.meant + " meant?";
}

}  // namespace mq
