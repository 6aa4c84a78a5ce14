#include "mpi_quant/base/variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "mpi_quant/base/spelling.hpp"

namespace mq {
namespace {

// The variables of env.hpp.
constexpr std::array<std::string_view, 19> kVariables{
    "MPIQ_POLICY",     "MPIQ_POLICY_FILE", "MPIQ_MODE",          "MPIQ_REPORT",    "MPIQ_ADVISE_ERROR",
    "MPIQ_RESIDUALS",  "MPIQ_ISA",         "MPIQ_THREADS",       "MPIQ_SEED",      "MPIQ_WATCHDOG",
    "MPIQ_CUDA",       "MPIQ_CUDA_SYNC",   "MPIQ_CUDA_WIRE",     "MPIQ_CUDA_TIME", "MPIQ_CUDA_SEGMENTS",
    "MPIQ_NODE_RANKS", "MPIQ_KNOWLEDGE",   "MPIQ_KNOWLEDGE_OUT", "MPIQ_WAIT"};
// Variables of the project's programs. They resemble some of the above, but are no mistakes.
constexpr std::array<std::string_view, 3> kOthers{"MPIQ_RUN", "MPIQ_SITE", "MPIQ_JOBS"};

}  // namespace

std::vector<Mistyped> mistyped_variables() {
  std::vector<Mistyped> found;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    std::string_view name = *variable;
    name = name.substr(0, name.find('='));
    const auto is_known = [&](const auto& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!name.starts_with("MPIQ") || is_known(kVariables) || is_known(kOthers)) continue;
    if (const std::string_view* const meant = meant_by(name, kVariables))
      found.push_back({std::string(name), std::string(*meant)});
  }
  return found;
}

std::string words(const Mistyped& mistyped) {
  return mistyped.name + " is no variable of this library: is " + mistyped.meant + " meant?";
}

}  // namespace mq
