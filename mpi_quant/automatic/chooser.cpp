// long on purpose: one state machine, whose parts are read side by side
#include "mpi_quant/automatic/chooser.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mq {
namespace {

constexpr std::uint64_t kExactCalls = 2;      // the first of all; then one with an agreement
constexpr std::uint64_t kMeasuringCalls = 8;  // in which rates of codecs are measured until they are known
constexpr std::size_t kTries = 3;             // runs of a candidate until its time is believed
constexpr double kShare = 0.01;               // of MPI's time: what each call brings to the account
constexpr double kFirst = 1.05, kMost = 1.5;  // MPI's times that the account holds
constexpr double kOptimism = 0.85, kPessimism = 1.3;  // how far off a prediction may be
// MPI's times that a call is charged at most, and the first run of a candidate. What takes longer is mostly
// not the method: other processes that run meanwhile, and in a first run memory that is used for the first
// time.
constexpr double kMostLoss = 1, kMostFirstLoss = 0.5;
constexpr double kUnknownAgreement = 0.1;  // of MPI's time
constexpr double kAhead = 0.985;           // of the fastest: else a candidate is not worth a try
constexpr double kFarAbove = 1.3, kFarBelow = 0.77;
constexpr unsigned kFarInARow = 4, kFarDense = 3;
constexpr double kWindow = 200;  // calls that the budget is for
constexpr double kSmallChange = 0.1, kNewShare = 0.1;
constexpr double kMostOff = 5;  // a candidate, from the model
// MPI's times that judging a result is taken to need before it was measured, and at most: the exact sum, and
// passes.
constexpr double kJudging = 1.5, kMostJudging = 3;
constexpr double kWorthJudging = 0.95;  // of MPI's time
// MPI's times that a call is charged at most for samples of what did not run.
constexpr double kMostTrying = 3;
// The other plans of the favourite's codec: runs in any case, if the model takes them to need at most so many
// times as long, and the first run took at most so many times as long.
constexpr std::size_t kProbes = 2;
constexpr double kMostProbed = 3, kMostFirstProbe = 2;
constexpr double kGreatestMargin = 1e30;  // finite in a file
constexpr unsigned kMostSplits = 3;
constexpr std::uint64_t kPause = 64, kFirstRetry = 32;
constexpr std::uint64_t kLooksAgain = 24;  // calls until a size is asked for again
constexpr double kOtherSize = 0.2;         // a size that has changed by this share

// Of another build, the list may be another one.
std::uint64_t hash_of(const std::vector<AutoCandidate>& candidates) {
  Hash hash;
  for (const AutoCandidate& candidate : candidates) hash.add(mq::hash_of(to_string(candidate.method)));
  return hash.value();
}

bool is_far(double seconds, double usual) {
  return usual > 0 && (seconds > kFarAbove * usual || seconds < kFarBelow * usual);
}

}  // namespace

Chooser::Chooser(const CallClass& calls, bool agrees_anyway)
    : calls_(calls),
      agrees_anyway_(agrees_anyway),
      candidates_(candidates_of(calls)),
      known_(candidates_.size()),
      listed_(hash_of(candidates_)) {}

// The least of few times, and no more than predicted after the first, because the first run of a candidate
// also gets its memory; the median of more.
void Chooser::Known::estimate() {
  if (runs == 0) {
    time = predicted;
  } else if (runs == 1 && predicted > 0) {
    time = std::min(times[0], predicted);
  } else {
    const std::size_t n = std::min(runs, kKept);
    std::array<double, kKept> sorted = times;
    const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(n);
    const auto wanted = sorted.begin() + (n < kTries ? 0 : static_cast<std::ptrdiff_t>(n / 2));
    std::nth_element(sorted.begin(), wanted, end);
    time = *wanted;
  }
}

void Chooser::Known::add_run(double seconds) {
  times[runs % kKept] = seconds;
  ++runs;
  estimate();
}

void Chooser::Known::forget_runs() {
  runs = 0;
  estimate();
}

double Chooser::seconds(std::size_t i) const { return known_[i].runs == 0 ? 0 : known_[i].time; }

bool Chooser::is_within_limit(std::size_t i) const {
  return known_[i].error < 0 || allows(i, known_[i].error, margin_);
}

bool Chooser::allows(std::size_t i, double error, double margin) const {
  if (i == 0 || candidates_[i].is_sure) return true;
  const bool is_relative = calls_.limit.kind == Automatic::Kind::relative;
  const double factor = is_relative ? std::sqrt(candidates_[i].losses) * margin : 1;
  return error * factor <= calls_.limit.value;
}

Choice Chooser::favourite_choice() const {
  Choice choice = run(frozen_ != kNone ? frozen_ : favourite());
  choice.judged = false;
  return choice;
}

// Only a sample tells its error or its size, and none was taken, or the last one was over the limit a while
// ago.
bool Chooser::asks_for_sample(std::size_t i) const {
  const Known& k = known_[i];
  if (k.error < 0) return !candidates_[i].is_sure || candidates_[i].sized_by_data;
  return !is_within_limit(i) && totals_.calls >= k.retry;
}

// Results of lossless methods and of those that promise their bound need no judge. With memory the results
// of single calls say nothing.
bool Chooser::can_be_judged(std::size_t i) const {
  return i != 0 && calls_.limit.kind == Automatic::Kind::relative && !candidates_[i].is_sure;
}

bool Chooser::is_last_try(std::size_t i) const {
  return known_[i].runs + 1 >= kTries || known_[i].unjudged >= kTries;
}

// The first time in the last of its tries, so that nothing unjudged is a favourite. What it will save pays
// for that. With a root the account has to bear what saves little, because the agreements by which MPI's own
// calls are timed take most of what it gets.
bool Chooser::must_be_judged(std::size_t i) const {
  if (!can_be_judged(i) || totals_.calls < known_[i].next_judged) return false;
  if (frozen_ == i) return true;
  const bool saves = timed() == TimedRank::fastest || call_s(i) < kWorthJudging * mpi_s();
  return is_last_try(i) && account_s_ >= (saves ? 0 : judging_s());
}

bool Chooser::is_trusted(std::size_t i) const { return !can_be_judged(i) || known_[i].judgements > 0; }

std::size_t Chooser::favourite() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < known_.size(); ++i)
    if (known_[i].runs > 0 && is_trusted(i) && is_within_limit(i) && call_s(i) < call_s(best)) best = i;
  return best;
}

bool Chooser::is_over_other_plan(std::size_t i, std::size_t of) const {
  const Method &a = candidates_[i].method, &b = candidates_[of].method;
  return i != of && a.codec == b.codec && a.params == b.params;
}

// Runs also if it is not expected to be ahead of the best.
bool Chooser::is_probed(std::size_t i, std::size_t best) const {
  const Known& k = known_[i];
  if (best == 0 || k.runs >= kProbes || !is_over_other_plan(i, best)) return false;
  if (k.runs > 0) return k.times[0] < kMostFirstProbe * call_s(best);
  return k.predicted < kMostProbed * call_s(best);
}

// The candidate with the least expected time among those that may be ahead of the best and are not yet
// believed, if the account can bear it; else the best.
std::size_t Chooser::worth_a_try(std::size_t best) const {
  std::size_t found = best;
  double least = kAhead * call_s(best);
  constexpr double kLast = 0.999;  // of that: after all that are expected to be ahead
  for (std::size_t i = 1; i < known_.size(); ++i) {
    const Known& k = known_[i];
    double expected = k.runs == 0 ? k.time * kOptimism + sample_s(i) : k.time;
    if (is_probed(i, best)) expected = std::min(expected, kLast * kAhead * call_s(best));
    // Another call's agreement costs nothing then. One that was over the limit is not worth an agreement.
    const bool waits = asks_for_sample(i) && (best != 0 || k.error >= 0);
    if ((k.runs >= kTries && is_trusted(i)) || waits || (!is_within_limit(i) && totals_.calls < k.retry) ||
        expected >= least)
      continue;
    if (cost_of_try(i) > account_s_) continue;
    if (!is_trusted(i) && is_last_try(i) && !must_be_judged(i)) continue;
    found = i;
    least = expected;
  }
  return found;
}

// Beyond MPI's own reduction, at worst.
double Chooser::cost_of_try(std::size_t i) const {
  const Known& k = known_[i];
  const double takes = k.runs == 0 ? k.time * kPessimism + sample_s(i) : k.time;
  const double if_over_limit = sample_s(i) + (agrees_anyway_ ? 0 : agreement_s_);
  return std::max(takes - mpi_s(), asks_for_sample(i) ? if_over_limit : 0.0);
}

// The next candidate to be tried on a sample in the agreement of another call: one that would be ahead; or
// else the one whose size was asked for longest ago; 0: none.
std::size_t Chooser::worth_a_scout(std::size_t best) const {
  std::size_t ahead = 0, sized = 0;
  double least = kAhead * call_s(best);
  for (std::size_t i = 1; i < known_.size(); ++i) {
    const Known& k = known_[i];
    const double expected = k.time * kOptimism;
    if (asks_for_sample(i) && k.predicted > 0 && expected < least) {
      least = expected;
      ahead = i;
    }
    const bool is_old = k.error < 0 || totals_.calls - k.sampled_at >= kLooksAgain;
    if (candidates_[i].sized_by_data && i != best && is_old &&
        (sized == 0 || k.sampled_at < known_[sized].sampled_at))
      sized = i;
  }
  return ahead != 0 ? ahead : sized;
}

// MPI's reduction instead of a favourite that is s times as fast costs s - 1 of its calls: one call in
// (s - 1) / 0.015 costs 1.5 %.
std::uint64_t Chooser::calls_between_dense(std::size_t best) const {
  constexpr double kLeast = 16, kMostCalls = 1000, kCost = 0.015;
  const double speedup = mpi_s() / std::max(known_[best].time, 1e-9);
  return static_cast<std::uint64_t>(std::clamp((speedup - 1) / kCost, kLeast, kMostCalls));
}

// An agreement in a call that MPI reduces may take most of what the account gets.
std::uint64_t Chooser::calls_between_agreements() const {
  constexpr std::uint64_t kSoon = 3;
  if (known_[0].unusual > 0) return kSoon;
  constexpr double kLeast = 8, kMostCalls = 1000, kMostOfShare = 0.8;
  return static_cast<std::uint64_t>(
      std::clamp(agreement_s_ / (kMostOfShare * kShare * std::max(dense_s(), 1e-9)), kLeast, kMostCalls));
}

Choice Chooser::run(std::size_t i) const {
  Choice choice;
  choice.candidate = i;
  choice.agrees = i != 0;
  choice.sampled = i != 0 && !candidates_[i].is_sure;
  choice.judged = must_be_judged(i);
  choice.margin = margin_;
  return choice;
}

// An exact call. With an agreement, if the ranks' times are due. What was never tried on a sample is tried
// earlier, if there is an agreement anyway.
Choice Chooser::leave_to_mpi(bool is_favourite) {
  Choice choice;
  last_dense_ = totals_.calls;
  choice.agrees = timed() == TimedRank::slowest;  // else its time would say nothing
  if (!is_favourite) return choice;
  choice.agrees = !knows_network() || totals_.calls - last_agreement_ >= calls_between_agreements();
  const std::size_t next = worth_a_scout(0);
  const bool can_pay = account_s_ > 0;
  if (choice.agrees || (agrees_anyway_ && can_pay && known_[next].error < 0)) choice.scouted = next;
  return choice;
}

Choice Chooser::next() {
  ++totals_.calls;
  account_s_ += std::exchange(reserved_s_, 0.0);  // of a call that ended before the ranks agreed
  account_s_ = std::min(account_s_ + kShare * dense_s(), kMost * dense_s());
  spent_s_ *= 1 - 1.0 / kWindow;
  trying_s_ *= 1 - 1.0 / kWindow;  // first samples are slow, and would keep all others from being tried
  settle();
  now_ = frozen_ != kNone ? run(frozen_) : choose();
  now_.agrees =
      now_.agrees || totals_.calls == 1;  // so that all know of a rank that has no memory for this class
  now_.measures = frozen_ == kNone && !is_rated_ && totals_.calls <= kMeasuringCalls;
  return now_;
}

Choice Chooser::choose() {
  if (totals_.calls <= kExactCalls || totals_.calls < paused_until_) return {};
  const std::size_t best = favourite();
  const bool may_try = knows_network() && known_[0].unusual == 0;
  const std::size_t tried = may_try ? worth_a_try(best) : knows_network() ? best : 0;
  const bool is_due = best != 0 && tried == best && totals_.calls - last_dense_ >= calls_between_dense(best);
  if (is_due || tried == 0 || wants_dense_) {
    wants_dense_ = false;
    return leave_to_mpi(best == 0);
  }
  Choice choice = run(tried);
  choice.scouted = worth_a_scout(best);
  if (tried != best) account_s_ -= reserved_s_ = cost_of_try(tried);
  return choice;
}

void Chooser::predict(std::size_t i) {
  known_[i].predicted = predicted_s(calls_, candidates_[i], network_, slowness_) * known_[i].correction;
  known_[i].estimate();
}

void Chooser::fit() {
  network_ = fitted_prices(calls_, dense_s(), agreement_s_);
  for (std::size_t i = 1; i < known_.size(); ++i) predict(i);
}

double Chooser::judging_s() const { return judged_s_ > 0 ? judged_s_ : kJudging * dense_s(); }

void Chooser::pay_agreement() {
  if (agrees_anyway_) return;
  if (dense_s() == 0 && timed() == TimedRank::slowest)
    ++unpaid_agreements_;
  else
    pay(agreement_s_ > 0 ? agreement_s_ : kUnknownAgreement * dense_s());
}

void Chooser::pay(double seconds) {
  account_s_ -= seconds;
  spent_s_ += seconds;
  totals_.explored_s += std::max(seconds, 0.0);
}

// All is measured again, as at the beginning. What was learnt of the samples and of the model stays.
void Chooser::forget_times() {
  changed_at_ = totals_.calls;
  for (Known& k : known_) {
    k.forget_runs();
    k.usual = 0;
    k.unusual = k.drifting = 0;
  }
  agreement_s_ = judged_s_ = first_dense_s_ = 0;
  timed_ = kNone;
  wants_dense_ = false;
  ++totals_.changes;
}

void Chooser::add_time(std::size_t i, double seconds) {
  Known& k = known_[i];
  // What a sample takes is known, and no disturbance.
  const double gain = mpi_s() - seconds, usual_loss = kMostLoss * dense_s() + sample_s(i),
               most_loss = k.runs == 0 ? kMostFirstLoss * dense_s() + sample_s(i) : usual_loss;
  const double least = std::min(account_s_, -usual_loss);  // judging may have cost more
  account_s_ = std::clamp(account_s_ + std::max(gain, -most_loss), least, kMost * dense_s());
  totals_.saved_s += gain;
  if (gain < 0) {
    totals_.explored_s -= gain;
    spent_s_ += std::min(-gain, most_loss);
  }
  // The second run shows whether the first one was slow because of the method.
  constexpr double kAlike = 0.8;
  if (k.runs == 1 && seconds > kAlike * k.times[0]) {
    account_s_ -= k.excused_s;
    spent_s_ += k.excused_s;
  }
  k.excused_s = k.runs == 0 ? std::clamp(-gain, most_loss, usual_loss) - most_loss : 0;
  k.add_run(seconds);
  if (k.predicted > 0 && k.runs == kTries)
    k.correction = std::clamp(k.correction * k.time / k.predicted, 1 / kMostOff, kMostOff);
  watch(i, seconds);
}

// Compares with what was usual. A small change that lasts is a reason to look at MPI's own reduction again; a
// great one to measure the other candidates again, too.
void Chooser::watch(std::size_t i, double seconds) {
  Known& k = known_[i];
  if (k.usual == 0) {
    if (k.runs >= kKept) k.usual = k.time;
    return;
  }
  const double off = std::abs(seconds / k.usual - 1);
  k.scatter += kNewShare * (std::min(off, kSmallChange) - k.scatter);
  k.unusual = is_far(seconds, k.usual) ? k.unusual + 1 : 0;
  k.drifting = off > std::max(kSmallChange, 3 * k.scatter) ? k.drifting + 1 : 0;
  const bool is_great = k.unusual >= kFarInARow;
  if (!is_great && k.drifting < kKept) return;
  k.usual = 0;
  k.unusual = k.drifting = 0;
  if (is_great)
    forget_times();
  else
    wants_dense_ = true;
}

// A time that is far from the others is looked at again soon: among compressed calls by the next call, where
// MPI reduces by agreements in short intervals.
//
// One rank that is late in one call would otherwise be MPI's first time, where the slowest rank counts: so it
// is the least of two.
void Chooser::add_dense(double seconds) {
  Known& k = known_[0];
  if (k.runs == 0 && timed() == TimedRank::slowest) {
    if (first_dense_s_ == 0) {
      first_dense_s_ = seconds;
      return;
    }
    seconds = std::min(seconds, std::exchange(first_dense_s_, 0.0));
  }
  const bool is_far_off = k.runs > 0 && is_far(seconds, dense_s());
  k.unusual = is_far_off ? k.unusual + 1 : 0;
  if (is_far_off && k.unusual < kFarDense) {
    wants_dense_ = true;
    return;
  }
  if (is_far_off) forget_times();
  const bool is_first = k.runs == 0;
  k.add_run(seconds);
  if (!is_first) return;
  // What a change allows to try again is what 200 calls may cost, less what they have cost so far.
  account_s_ = std::clamp(kShare * kWindow * dense_s() - spent_s_, 0.0, kFirst * dense_s());
  pay(std::exchange(unpaid_agreements_, 0) * agreement_s_);
  fit();
}

void Chooser::hear_times(const Heard& heard) {
  account_s_ += std::exchange(pending_s_, 0.0);
  if (now_.measures && heard.encode_rate > 0) {
    slowness_ = slowness_of({static_cast<double>(heard.encode_rate), static_cast<double>(heard.decode_rate)},
                            calls_.element);
    is_rated_ = true;
    if (knows_network()) fit();
  }
  if (const double s = seconds_of(heard.agreement_rate, TimedRank::fastest); s > 0) {
    const bool is_first = agreement_s_ == 0;
    constexpr double kNew = 0.2;  // share of the newest time, which is cut if it is an outlier
    agreement_s_ = is_first ? s : agreement_s_ + kNew * (std::min(s, 2 * agreement_s_) - agreement_s_);
    if (is_first && dense_s() > 0) fit();
  }
  if (const double s = seconds_of(heard.dense, timed()); s > 0) add_dense(s);
  if (double s = seconds_of(heard.call, timed()); s > 0 && has_tried_) {
    pay_trying(s);
  } else if (s > 0 && timed_ != kNone) {
    if (timed() == TimedRank::slowest) s += agreement_s_;  // it was timed from there on
    is_timed_judged_ ? add_judging(timed_, s) : add_time(timed_, s);
  }
  booked_s_ = 0;
}

// Each rank's own work, without waiting.
void Chooser::pay_trying(double seconds) {
  const double most = kMostTrying * dense_s();
  pay(std::min(seconds, most));
  if (has_prepared_) trying_s_ = std::min(seconds, most);
}

// A call with judging took so long. Judging is booked with what it took beyond the usual.
void Chooser::add_judging(std::size_t i, double seconds) {
  if (booked_s_ == 0) return;  // the ranks did not come to judging
  const double took = std::clamp(seconds - known_[i].time, 0.0, kMostJudging * dense_s());
  constexpr double kNew = 0.5;
  judged_s_ = judged_s_ > 0 ? judged_s_ + kNew * (took - judged_s_) : took;
  pay(took - booked_s_);
}

// The sample says the same of all plans of a codec. sees_all: as the one does that a call is allowed by. What
// others say does not speak against that one until its time to be asked again.
void Chooser::take_sample(std::size_t of, const Sampled& sampled, bool sees_all) {
  const Method& tried = candidates_[of].method;
  for (std::size_t i = 1; i < known_.size(); ++i) {
    AutoCandidate& c = candidates_[i];
    if (c.method.codec != tried.codec || c.method.params != tried.params) continue;
    Known& k = known_[i];
    const bool stays_over = !sees_all && !is_within_limit(i) && totals_.calls < k.retry;
    if (!stays_over) k.error = static_cast<double>(sampled.error);
    k.sampled_at = totals_.calls;
    const double bytes = static_cast<double>(sampled.wire_bytes), before = c.wire_bytes;
    if (c.sized_by_data && bytes > 0) {
      c.wire_bytes = bytes;
      // What it took is of no use any more.
      if (frozen_ == kNone && std::abs(bytes - before) > kOtherSize * before) k.forget_runs();
      if (frozen_ == kNone && dense_s() > 0 && k.runs == 0) predict(i);
    }
    if (!is_within_limit(i) && !stays_over) miss(k);
  }
}

void Chooser::miss(Known& k) {
  constexpr unsigned kMostDoublings = 5;
  k.retry = totals_.calls + (kFirstRetry << std::min(k.misses, kMostDoublings));
  ++k.misses;
}

bool Chooser::heard(const Heard& heard, bool runs) {
  if (now_.agrees) last_agreement_ = totals_.calls;
  if (frozen_ == kNone) hear_times(heard);
  // Scouts see some of several vectors, and no residuals.
  const bool scouts_see_all = calls_.vectors == 0 && calls_.limit.kind != Automatic::Kind::feedback;
  if (now_.scouted != 0) take_sample(now_.scouted, heard.scouted, scouts_see_all);
  if (now_.sampled) take_sample(now_.candidate, heard.own, true);
  const bool allowed = !now_.sampled || is_within_limit(now_.candidate);
  const bool ran = now_.candidate != 0 && allowed && runs;
  (ran ? pending_s_ : account_s_) += std::exchange(reserved_s_, 0.0);
  if (now_.agrees && !ran) pay_agreement();
  if (ran) {
    timed_ = now_.candidate;
    has_tried_ = false;
  } else {
    mpi_reduces();
  }
  is_timed_judged_ = now_.judged;
  if (ran && !is_trusted(now_.candidate) && !now_.judged) ++known_[now_.candidate].unjudged;
  totals_.compressed += ran;
  if (ran) known_[now_.candidate].has_run = true;
  totals_.inexact += !allowed;
  if (now_.candidate != 0 && allowed && !runs)
    count_split();
  else
    splits_ = 0;
  return allowed;
}

void Chooser::mpi_reduces() {
  timed_ = kNone;
  has_prepared_ = now_.candidate != 0;
  has_tried_ = has_prepared_ || now_.scouted != 0 || now_.measures;
}

void Chooser::split() {
  mpi_reduces();
  account_s_ += std::exchange(reserved_s_, 0.0);
  pay_agreement();
  count_split();
}

// The choice was not followed. After some such calls in a row MPI reduces for a while, without agreements.
void Chooser::count_split() {
  if (++splits_ < kMostSplits) return;
  splits_ = 0;
  paused_until_ = totals_.calls + kPause;
}

// One judgement in so many calls that it costs 0.8 % of their time.
bool Chooser::judged(double error) {
  Known& k = known_[now_.candidate];
  booked_s_ = judging_s();
  pay(booked_s_);
  ++totals_.judgements;
  constexpr double kCost = 0.008, kMostCalls = 1e6;
  // A file may have no times. Then MPI's reduction counts as taking as long as the candidate.
  const bool is_timed = dense_s() > 0 && k.time > 0;
  const double between = std::min((is_timed ? judging_s() / k.time : kJudging) / kCost, kMostCalls);
  k.next_judged = totals_.calls + static_cast<std::uint64_t>(between);
  ++k.judgements;
  totals_.worst_error = std::max(totals_.worst_error, error);
  if (error <= calls_.limit.value) return true;
  k.next_judged = 0;
  if (k.error > 0) {
    // So that the sample of this call would have been over the limit.
    const double hidden = error / (k.error * std::sqrt(candidates_[now_.candidate].losses));
    margin_ = std::max(2 * margin_, std::min(kMargin * hidden, kGreatestMargin));
    miss(k);
  } else {
    distrust(now_.candidate, error);
  }
  return false;
}

// Samples of this codec may lose nothing where the vector loses much: topk, if few elements of the sample are
// not zero. Once they lose nothing again, the next result is judged before any other is delivered.
void Chooser::distrust(std::size_t of, double error) {
  for (std::size_t i = 1; i < known_.size(); ++i) {
    if (i != of && !is_over_other_plan(i, of)) continue;
    Known& k = known_[i];
    k.error = error;
    k.judgements = k.next_judged = 0;
    k.unjudged = kTries;
    miss(k);
  }
}

void Chooser::restart() noexcept {
  std::fill(known_.begin(), known_.end(), Known{});
  for (AutoCandidate& candidate : candidates_) candidate.wire_bytes = candidate.usual_bytes;
  totals_ = {};
  network_ = {};
  slowness_ = {};
  is_rated_ = false;
  now_ = {};
  timed_ = kNone;
  has_tried_ = has_prepared_ = false;
  trying_s_ = 0;
  agreement_s_ = account_s_ = reserved_s_ = pending_s_ = spent_s_ = judged_s_ = booked_s_ = 0;
  is_timed_judged_ = false;
  margin_ = kMargin;
  last_dense_ = last_agreement_ = paused_until_ = 0;
  splits_ = unpaid_agreements_ = 0;
  first_dense_s_ = 0;
  wants_dense_ = false;
  settled_ = {};
  last_favourite_ = 0;
  favoured_since_ = changed_at_ = 0;
  if (frozen_ != kNone) take_file();
}

Chooser::Counts Chooser::counts() const {
  Counts all;
  for (std::size_t i = 1; i < known_.size(); ++i) {
    const auto is_alike = [&](std::size_t of) { return of == i || is_over_other_plan(of, i); };
    bool is_first = true, tried = false;
    for (std::size_t of = 1; of < known_.size(); ++of) {
      if (!is_alike(of)) continue;
      is_first = is_first && of >= i;
      tried = tried || known_[of].has_run;
    }
    if (!is_first) continue;
    ++all.methods;
    all.tried += tried;
    all.over_limit += !is_within_limit(i);
  }
  return all;
}

void ChoiceSummary::add(const ChoiceSummary& other) {
  if (known.learnt_from < other.known.learnt_from) {
    known = other.known;
    counts = other.counts;
  }
  Chooser::Totals& sum = totals;
  const Chooser::Totals& of = other.totals;
  sum.calls += of.calls;
  sum.compressed += of.compressed;
  sum.inexact += of.inexact;
  sum.saved_s += of.saved_s;
  sum.explored_s += of.explored_s;
  sum.worst_error = std::max(sum.worst_error, of.worst_error);
  sum.judgements += of.judgements;
  sum.changes += of.changes;
}

std::uint16_t Chooser::state() const {
  const std::uint64_t all = Hash{}
                                .add(listed_)
                                .add(totals_.calls)
                                .add(account_s_)
                                .add(margin_)
                                .add(agreement_s_)
                                .add(is_rated_)
                                .add(slowness_.encode)
                                .add(slowness_.decode)
                                .add(frozen_)
                                .add(now_.candidate)
                                .add(now_.scouted)
                                .add(now_.judged)
                                .value();
  return static_cast<std::uint16_t>(all >> 48 ^ all);
}

void Chooser::freeze(const KnownClass* known) {
  frozen_ = 0;
  file_ = {};
  if (known == nullptr) return;
  if (const auto named = candidate_for(calls_, candidates_, known->method)) {
    const std::string wanted = to_string(named->method);
    for (std::size_t i = 1; i < candidates_.size(); ++i)
      if (to_string(candidates_[i].method) == wanted) frozen_ = i;
    if (frozen_ == 0) {
      known_.reserve(known_.size() + 1);
      candidates_.push_back(*named);
      frozen_ = known_.size();
      known_.emplace_back();
    }
  }
  file_ = {known->seconds, known->dense_s, known->margin};
  take_file();
}

void Chooser::take_file() {
  margin_ = file_.margin;
  const auto set = [&](std::size_t i, double seconds) {
    if (seconds > 0) known_[i].add_run(seconds);
  };
  if (frozen_ != 0) set(frozen_, file_.seconds);
  set(0, file_.dense_s);
}

// A favourite while no time is far from the usual: a candidate that is trusted, or MPI after enough calls to
// try others. Just before a change is seen, slow calls may make MPI the favourite, or another candidate.
void Chooser::settle() {
  constexpr std::uint64_t kEnough = 50;
  const auto is_calm = [](const Known& k) { return k.unusual == 0 && k.drifting == 0; };
  const std::size_t best = favourite();
  if (best != last_favourite_) favoured_since_ = totals_.calls;
  last_favourite_ = best;
  // The one before it may have ended with slow calls, and runs no more.
  const bool lasts = totals_.calls - favoured_since_ >= kEnough;
  if (!lasts && !std::all_of(known_.begin(), known_.end(), is_calm)) return;
  const std::uint64_t tried = totals_.calls - (settled_.dense_s > 0 ? changed_at_ : 0);
  if (dense_s() > 0 && (best != 0 || tried >= kEnough)) settled_ = {best, seconds(best), seconds(0)};
}

KnownClass Chooser::known() const {
  Settled now = settled_;
  std::uint64_t learnt_from = totals_.calls;
  if (frozen_ != kNone) {
    now = {frozen_, seconds(frozen_), seconds(0)};
  } else if (settled_.dense_s == 0 || !is_within_limit(settled_.candidate)) {
    now = {0, seconds(0), seconds(0)};
    learnt_from = 0;
  }
  return {calls_, candidates_[now.candidate].method, now.seconds, now.dense_s, margin_, learnt_from};
}

}  // namespace mq
