#include "sparse_allreduce/union_chooser.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace mq::sparse {
namespace {

constexpr double kUntried = 0.5, kOnce = 0.5;  // of the predicted time, of the first run's
constexpr double kChanged = 2;

bool are_alike(const UnionShape& a, const UnionShape& b) {
  return std::bit_width(a.size) == std::bit_width(b.size) &&
         std::bit_width(a.most_entries) == std::bit_width(b.most_entries) && a.ranks == b.ranks &&
         a.dense_output == b.dense_output && a.entry.element == b.entry.element && a.entry.op == b.entry.op &&
         a.entry.stride == b.entry.stride;
}

bool is_near(std::uint64_t known, std::uint64_t now) {
  const std::uint64_t far = known / 8;
  return now >= known - far && now <= known + far;
}

// In the calls 8, 32, 128 and so on of a class.
bool looks_again(std::uint64_t calls) {
  return calls > 2 && std::has_single_bit(calls) && std::countr_zero(calls) % 2 == 1;
}

}  // namespace

double UnionChooser::Candidate::off_now() const {
  if (runs == 1) return kOnce * off[0];
  if (runs == 2) return std::min(off[0], off[1]);
  return std::max(std::min(off[0], off[1]), std::min(std::max(off[0], off[1]), off[2]));  // the median
}

void UnionChooser::Candidate::add_run(double seconds) {
  off[runs % kKept] = seconds / predicted_s;
  if (++runs == kKept) usual_off = off_now();
}

void UnionChooser::Candidate::doubt() {
  if (runs > 1) off[0] = off_now();
  runs = runs > 1;
}

// Predictions take about a microsecond, so they stay while lengths change by little. `dense` is the last.
void UnionChooser::Class::predict(const UnionShape& next, const Network& network) {
  if (calls > 0 && is_near(shape.size, next.size) && is_near(shape.most_entries, next.most_entries)) return;
  shape = next;
  double least_s = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool is_possible = can_reduce(kChoices[i], shape.entry.op);
    const double seconds = is_possible ? sparse::expected_s(kChoices[i], shape, network) : 0;
    const bool needs_vector = kChoices[i] == Algorithm::dense && !shape.dense_output;
    candidates[i].predicted_s = needs_vector && seconds > least_s ? 0 : seconds;
    least_s = i == 0 ? seconds : std::min(least_s, seconds);
  }
}

double UnionChooser::Class::trust() const {
  double least_s = 0, off = 1;
  for (const Candidate& candidate : candidates) {
    if (candidate.predicted_s == 0 || candidate.runs == 0) continue;
    const double seconds = candidate.predicted_s * candidate.off_now();
    if (least_s > 0 && seconds >= least_s) continue;
    least_s = seconds;
    off = candidate.off_now();
  }
  return kUntried * off;
}

std::size_t UnionChooser::Class::fastest(std::size_t but_not) const {
  const double untried = trust();
  std::size_t best = kNone;
  double least_s = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (i == but_not || candidate.predicted_s == 0) continue;
    const double seconds = candidate.predicted_s * (candidate.runs == 0 ? untried : candidate.off_now());
    if (best != kNone && seconds >= least_s) continue;
    best = i;
    least_s = seconds;
  }
  return best;
}

UnionChooser::Class& UnionChooser::class_of(const UnionShape& shape) {
  Class* oldest = &classes_[0];
  for (Class& known : classes_) {
    if (known.calls > 0 && are_alike(known.shape, shape)) return known;
    if (known.last_call < oldest->last_call) oldest = &known;
  }
  *oldest = {};
  return *oldest;
}

Algorithm UnionChooser::next(const UnionShape& shape, const Network& network) {
  timed_ = nullptr;
  if (shape.ranks == 1) return Algorithm::allgather;
  Class& calls = class_of(shape);
  calls.predict(shape, network);
  calls.last_call = ++calls_;
  ++calls.calls;
  if (looks_again(calls.calls)) calls.candidates[calls.fastest(calls.fastest())].doubt();
  timed_ = &calls;
  algorithm_ = calls.fastest();
  return kChoices[algorithm_];
}

void UnionChooser::heard(double seconds) {
  Class* const calls = std::exchange(timed_, nullptr);
  if (calls == nullptr || calls->calls == 1 || !(seconds > 0)) return;
  Candidate& ran = calls->candidates[algorithm_];
  ran.add_run(seconds);
  const double off = ran.off_now();
  if (ran.runs <= kKept || (off < kChanged * ran.usual_off && off * kChanged > ran.usual_off)) return;
  for (Candidate& candidate : calls->candidates) candidate.runs = 0;
}

}  // namespace mq::sparse
