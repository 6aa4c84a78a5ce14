#include "mpi_quant/automatic/overlap.hpp"

#include <algorithm>
#include <numeric>

#include "mpi_quant/base/hash.hpp"

namespace mq {
namespace {

constexpr std::size_t kFewest = 3;  // calls until a time is believed
constexpr double kShortest = 1e-9;  // seconds
constexpr double kWorthIt = 0.95;   // of MPI's time: else the codec does not pay
constexpr double kFaster = 0.67;    // so much is no accident
constexpr double kFading = 0.9;     // of what was before, with each call that MPI reduced
// The share of the time that looking at the slower one may take, and the calls until it runs again.
constexpr double kLooking = 0.01, kSoonest = 12, kLatest = 1e6;
constexpr std::uint64_t kUntilKnown = 4;  // calls, while the codec's time is not known

}  // namespace

double Overlap::Last::mean_s() const {
  if (n_ < kFewest) return 0;
  const auto begin = seconds_.begin(),
             end = begin + static_cast<std::ptrdiff_t>(std::min(n_, seconds_.size()));
  const double all = std::accumulate(begin, end, 0.0) - *std::max_element(begin, end);
  return std::max(all / static_cast<double>(end - begin - 1), kShortest);
}

float Overlap::Last::rate() const {
  const double mean = mean_s();
  return mean > 0 ? static_cast<float>(1 / mean) : 0;
}

void Overlap::took(bool by_codec, double seconds) {
  (by_codec ? codec_ : mpi_).add(seconds);
  slowest_s_ = std::max(codec_.mean_s(), by_codec ? slowest_s_ : kFading * slowest_s_);
  if (codec_.mean_s() >= kFaster * slowest_s_) return;
  // The program hides more by now, or the network is faster. MPI's times are from before that.
  mpi_.forget();
  slowest_s_ = codec_.mean_s();
}

bool Overlap::runs(const Heard& agreed, std::uint32_t number) {
  if (!(agreed.dense_rate > 0)) return false;
  const auto is_turn = [&](std::uint64_t calls) { return mixed(number) % calls == 0; };
  if (!(agreed.call_rate > 0)) return is_turn(kUntilKnown);
  const double codec = 1 / static_cast<double>(agreed.call_rate),
               mpi = 1 / static_cast<double>(agreed.dense_rate);
  const double slower = std::max(codec, mpi) / std::min(codec, mpi);
  const bool is_ahead = codec < kWorthIt * mpi;
  return is_ahead !=
         is_turn(static_cast<std::uint64_t>(std::clamp((slower - 1) / kLooking, kSoonest, kLatest)));
}

}  // namespace mq
