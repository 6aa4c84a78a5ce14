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

void Overlap::took(const Method& method, bool by_codec, double seconds) {
  if (!by_codec) mpi_.add(seconds);
  if (method.exact()) return;
  auto codec = std::find_if(codecs_.begin(), codecs_.end(),
                            [&](const ByCodec& other) { return other.method == method; });
  if (codec == codecs_.end()) {  // takes the place of the one that was used longest ago
    codec = std::min_element(codecs_.begin(), codecs_.end(),
                             [](const ByCodec& a, const ByCodec& b) { return a.used_at < b.used_at; });
    *codec = ByCodec{};
    codec->method = method;
  }
  codec->used_at = ++calls_;
  if (by_codec) codec->last.add(seconds);
  const double mean_s = codec->last.mean_s();
  codec->slowest_s = std::max(mean_s, by_codec ? codec->slowest_s : kFading * codec->slowest_s);
  if (mean_s >= kFaster * codec->slowest_s) return;
  // The program hides more by now, or the network is faster. MPI's times are from before that.
  mpi_.forget();
  codec->slowest_s = mean_s;
}

void Overlap::bring(const Method& method, TimedRank timed, Heard& into) const {
  const auto codec = std::find_if(codecs_.begin(), codecs_.end(),
                                  [&](const ByCodec& other) { return other.method == method; });
  into.call = codec == codecs_.end() ? 0 : brought(codec->last.mean_s(), timed);
  into.dense = brought(mpi_.mean_s(), timed);
}

bool Overlap::runs(const Heard& agreed, TimedRank timed, std::uint32_t number) {
  if (!(agreed.dense > 0)) return false;
  const auto is_turn = [&](std::uint64_t calls) { return mixed(number) % calls == 0; };
  if (!(agreed.call > 0)) return is_turn(kUntilKnown);
  const double codec = seconds_of(agreed.call, timed), mpi = seconds_of(agreed.dense, timed);
  const double slower = std::max(codec, mpi) / std::min(codec, mpi);
  const bool is_ahead = codec < kWorthIt * mpi;
  return is_ahead !=
         is_turn(static_cast<std::uint64_t>(std::clamp((slower - 1) / kLooking, kSoonest, kLatest)));
}

}  // namespace mq
