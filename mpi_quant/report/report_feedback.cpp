// What a report says about feedback: whether calls got what they asked for, and what to do if they did not.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "mpi_quant/base/figures.hpp"
#include "mpi_quant/report/report.hpp"

namespace mq {
namespace {

// A warning is given if at least this share of the calls with feedback of a class is concerned. The shares
// are chosen, not measured.
constexpr double kMostLost = 0.05, kMostWaiting = 0.5;

constexpr std::string_view kStateKey =
    "State a key before each such call: MPI_Pcontrol(MPIQ_PCONTROL, \"key=NAME\"), a name of its own for each "
    "tensor (MPIQ_PCONTROL is in mpi_quant.h).";

std::uint64_t calls(const Merged& m, FeedbackOutcome feedback) {
  return m.sum.feedback[static_cast<std::size_t>(feedback)];
}

// Of the outcomes with this fate, the one that most calls had. At least one call had one.
FeedbackOutcome most_of(const Merged& m, Fate which) {
  FeedbackOutcome most = FeedbackOutcome::none;
  std::uint64_t greatest = 0;
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) {
    const auto feedback = static_cast<FeedbackOutcome>(i);
    if (fate(feedback) != which || calls(m, feedback) <= greatest) continue;
    greatest = calls(m, feedback);
    most = feedback;
  }
  return most;
}

}  // namespace

std::uint64_t Merged::feedback_calls(Fate which) const {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i)
    if (fate(static_cast<FeedbackOutcome>(i)) == which) out += sum.feedback[i];
  return out;
}

Warning feedback_warning(const Merged& m) {
  const auto of = [&](Fate which) { return static_cast<double>(m.feedback_calls(which)); };
  const double lost = of(Fate::lost), waiting = of(Fate::waiting), all = lost + waiting + of(Fate::fine);
  const auto says = [&](double part, Fate which, const char* what) {
    return percent(part / all) + " of the calls with feedback " + what + " (" +
           std::string(name(most_of(m, which))) + ").";
  };
  if (lost > kMostLost * all) {
    const bool memory = most_of(m, Fate::lost) == FeedbackOutcome::budget;
    return {says(lost, Fate::lost, "lost their residual, what they left out never comes"),
            std::string(memory ? "Allow more memory for residuals with MPIQ_RESIDUALS." : kStateKey)};
  }
  if (waiting > kMostWaiting * all)
    return {says(waiting, Fate::waiting, "ran without it, because the library did not recognise the vector"),
            std::string(kStateKey)};
  return {};
}

std::string feedback_legend(const Report& report) {
  std::array<std::uint64_t, kFeedbackOutcomes> seen{};
  for (const auto& [id, m] : report.classes)
    for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) seen[i] = std::max(seen[i], m.sum.feedback[i]);
  std::size_t width = 0;
  std::string out;
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i)
    width = std::max(width, name(static_cast<FeedbackOutcome>(i)).size());
  for (std::size_t i = 0; i < kFeedbackOutcomes; ++i) {
    const auto feedback = static_cast<FeedbackOutcome>(i);
    if (seen[i] != 0 && fate(feedback) != Fate::none)
      out += "  " + left_aligned(name(feedback), width + 2) + std::string(words(feedback)) + "\n";
  }
  return out.empty() ? "" : "\nFeedback, calls of all ranks:\n" + out;
}

}  // namespace mq
