// long on purpose: one measurement from the first call of a method to the last look at its result
#include "bench/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "bench/call.hpp"
#include "bench/clock.hpp"
#include "bench/mpi_algorithm.hpp"
#include "bench/random.hpp"
#include "bench/samples.hpp"
#include "bench/start.hpp"
#include "bench/stats.hpp"

namespace mq::bench {
namespace {

constexpr int kMostWarmup = 50;
constexpr double kMostWarmup_s = 0.5;
constexpr double kGrowth = 1.5;         // of the number of repetitions between two checks of the interval
constexpr std::size_t kFewestReps = 6;  // with fewer, the median has no 95 % interval
constexpr int kMostTries = 5;           // per required valid repetition
// a call shorter than this many clock errors is timed together with others
constexpr double kClockErrors = 100;
constexpr double kMostBatch = 1000;
constexpr double kMostEnergyCalls = 1e6;

class PointRun {
 public:
  PointRun(const Bench& bench, const Point& point, Workload& workload, MPI_Comm comm);
  ~PointRun() { PMPI_Comm_free(&sync_); }
  PointRun(const PointRun&) = delete;
  PointRun& operator=(const PointRun&) = delete;
  std::vector<Outcome> run();

 private:
  struct Entry {  // a method
    std::unique_ptr<Variant> variant;
    std::string algorithm;  // of the MPI library's own reduction
    int compute_percent = -1;
    bool is_base = false;
    Outcome outcome;
    MPIQ_Stats before{};
    int error = MPI_SUCCESS;
    bool lives() const { return outcome.status == "ok"; }
  };

  Sample repeat(Entry& entry, int calls = 1, std::size_t repetition = 0);
  void first_call(Entry& entry);
  void warm_up(Entry& entry);
  void run_blocks();
  int calls_of_batch(double call_s) const;
  void share_batch();
  void run_batch(std::size_t blocks);
  void reduce_batch(std::vector<Sample> mine);
  std::size_t next_target(std::size_t done);
  std::string finished(const Entry& entry, std::size_t done, double now) const;
  void measure_energy(Entry& entry);
  void count_events_of(Entry& entry);
  void last_look(Entry& entry);
  void check_guards(Entry& entry);
  void fail(Entry& entry, std::string_view status, std::string note);
  bool root() const { return rank_ == 0; }
  void agree_on_errors(Entry& entry, std::string_view when);

  const Bench& bench_;
  const Options& options_;
  const Point& point_;
  Workload& workload_;
  MPI_Comm sync_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::size_t turn_ = 0;
  std::vector<Entry> entries_;
  std::vector<Entry*> living_;
  std::vector<std::size_t> rows_;  // the rest of the current Latin square
  std::vector<std::size_t> base_;
  Random random_;
  double began_s_ = 0;
  double pure_s_ = 0;  // of --overlap: the time of the baseline without computation, in its warm-up
  std::optional<GlobalClock> clock_;  // set if a global clock is needed
  std::optional<Starter> starter_;
};

PointRun::PointRun(const Bench& bench, const Point& point, Workload& workload, MPI_Comm comm)
    : bench_(bench), options_(bench.options), point_(point), workload_(workload), random_(bench.order_seed) {
  PMPI_Comm_dup(comm, &sync_);
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  if (bench.one_clock)
    clock_.emplace();
  else if (options_.sync == Sync::round)
    clock_.emplace(sync_);
  starter_.emplace(options_.sync, clock_ ? &*clock_ : nullptr, sync_);
  workload_.arm_guards();
  entries_.resize(point.methods.size());
  for (std::size_t m = 0; m < entries_.size(); ++m) {
    entries_[m].algorithm = point.methods[m].algorithm;
    entries_[m].compute_percent = point.methods[m].compute_percent;
    entries_[m].is_base = point.methods[m].text == options_.baseline;
    entries_[m].variant = workload_.variant(point.methods[m]);
    if (std::string why = entries_[m].variant->unavailable(); !why.empty())
      fail(entries_[m], "skipped", std::move(why));
  }
}

// Only the calls themselves are in the measured time. All of them use the same buffers.
Sample PointRun::repeat(Entry& entry, int calls, std::size_t repetition) {
  workload_.prepare(turn_++, repetition);
  const MPIQ_Stats before = entry.variant->stats();
  const MpiAlgorithm chosen(entry.algorithm);
  Sample s;
  s.began = (*starter_)();
  s.before_last_s = arrive(point_.arrival, rank_, size_, options_.data.seed, repetition);
  s.start_s = now_s();
  if (bench_.counters != nullptr) bench_.counters->call_begins();
  for (int i = 0; i < calls; ++i)
    if (const int error = entry.variant->call(); error != MPI_SUCCESS) entry.error = error;
  if (bench_.counters != nullptr) bench_.counters->call_ends();
  s.end_s = now_s();
  const MPIQ_Stats after = entry.variant->stats();
  const double sums = static_cast<double>(calls) * entry.variant->calls_each();
  s.phase_s = {(after.encode_s - before.encode_s) / sums, (after.wait_s - before.wait_s) / sums,
               (after.decode_s - before.decode_s) / sums};
  // These times cannot tell waiting for a late rank from the call's own work.
  if (point_.arrival != Arrival{}) s.phase_s.fill(kUnknown);
  if (clock_) s.start_s = clock_->at(s.start_s), s.end_s = clock_->at(s.end_s);
  s.end_s = s.start_s + (s.end_s - s.start_s) / sums;
  if (entry.compute_percent > 0) {
    const double start = now_s();
    entry.variant->compute();
    s.compute_s = now_s() - start;
  }
  return s;
}

void PointRun::fail(Entry& entry, std::string_view status, std::string note) {
  entry.outcome.status = status;
  if (entry.outcome.note.empty()) entry.outcome.note = std::move(note);
}

// A call may have failed on one rank only. Rank 0 gets the text of the first rank that has one.
void PointRun::agree_on_errors(Entry& entry, std::string_view when) {
  const int first = first_no(entry.error == MPI_SUCCESS, sync_);
  if (first == size_) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  if (rank_ == first) {
    const std::string mine = error_text(entry.error);
    std::copy_n(mine.data(), std::min(mine.size(), text.size() - 1), text.data());
  }
  PMPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, first, sync_);
  fail(entry, "failed", fmt::format("{} on rank {}: {}", when, first, text.data()));
  entry.outcome.stop_reason = "error";
}

// The first call has an empty residual. It gives the error that is reported, and the cost of connections and
// plans.
void PointRun::first_call(Entry& entry) {
  turn_ = 0;
  const Sample s = repeat(entry);
  double t = s.time_s();
  PMPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, sync_);
  entry.outcome.t_first_s = t;
  agree_on_errors(entry, "first call");
  if (!entry.lives() || !options_.check) return;
  const ResultErrors v = entry.variant->compare(entry.variant->exact());
  entry.outcome.errors = v;
  if (v.n_wrong > 0) fail(entry, "invalid", fmt::format("{} wrong elements in the first call", v.n_wrong));
  // MPI does not promise equal bits for its own reduction.
  if (!v.replicas_equal && entry.variant->ours()) fail(entry, "invalid", "ranks ended with different bits");
  check_guards(entry);
  if (all_agree(workload_.input_intact(), sync_)) return;
  fail(entry, "invalid", "changed the send buffer");
  workload_.restore_input();
}

// Broken guards are made again, so that the next method is not blamed for them.
void PointRun::check_guards(Entry& entry) {
  if (all_agree(workload_.guards_intact(), sync_)) return;
  fail(entry, "invalid", "wrote outside of the receive buffer");
  workload_.arm_guards();
}

// Calls without computation come first: the baseline's, or the first one's that is measured, tell how long to
// compute. It is the same length for all methods, so that speed-ups are of equal work.
void PointRun::warm_up(Entry& entry) {
  if (entry.compute_percent > 0) entry.variant->set_compute(pure_s_ * entry.compute_percent / 100);
  LastCalls last;
  const double start = now_s();
  for (int go_on = 1; go_on != 0;) {
    const Sample s = repeat(entry, 1, static_cast<std::size_t>(entry.outcome.warmup));
    last.add(s.time_s());
    ++entry.outcome.warmup;
    const int n = entry.outcome.warmup;
    const bool enough = last.steady() || n >= kMostWarmup || now_s() - start >= kMostWarmup_s;
    go_on = n < options_.warmup || !enough ? 1 : 0;
    PMPI_Bcast(&go_on, 1, MPI_INT, 0, sync_);
  }
  if (entry.compute_percent == 0 && (entry.is_base || pure_s_ == 0)) {
    pure_s_ = last.median();
    PMPI_Bcast(&pure_s_, 1, MPI_DOUBLE, 0, sync_);
  }
  agree_on_errors(entry, "warm-up");
  entry.outcome.batch = calls_of_batch(last.median());
  entry.before = entry.variant->stats();
}

// On rank 0: the number of calls for which the clock error is below 1 % of the time. In place it is always 1,
// because each call would get the sum of the call before, which soon overflows; and with --arrival, because
// ranks are late for the first call of several only, and all points are to be compared.
int PointRun::calls_of_batch(double call_s) const {
  if (options_.in_place || !options_.arrivals.empty()) return 1;
  const double calls = std::ceil(kClockErrors * bench_.clock_error_s / std::max(call_s, 1e-9));
  return static_cast<int>(std::clamp(calls, 1.0, kMostBatch));
}

// All methods of a point use the same number, because calls in a row find other cache contents than single
// calls.
void PointRun::share_batch() {
  int batch = 1;
  for (const Entry& e : entries_)
    if (e.lives()) batch = std::max(batch, e.outcome.batch);
  PMPI_Bcast(&batch, 1, MPI_INT, 0, sync_);
  for (Entry& e : entries_)
    if (e.lives()) e.outcome.batch = batch;
}

// Blocks follow the rows of cyclic Latin squares: each method has each place once, then a new random square
// begins.
void PointRun::run_batch(std::size_t blocks) {
  const std::size_t methods = living_.size();
  if (clock_) clock_->adjust();
  std::vector<Sample> samples(blocks * methods);
  for (std::size_t b = 0; b < blocks; ++b) {
    if (rows_.empty()) {
      base_.resize(methods);
      for (std::size_t i = 0; i < methods; ++i) base_[i] = i;
      rows_ = base_;
      random_.shuffle(base_);
      random_.shuffle(rows_);
    }
    const std::size_t row = rows_.back();
    rows_.pop_back();
    for (std::size_t i = 0; i < methods; ++i) {
      const std::size_t m = base_[(i + row) % methods];
      samples[b * methods + m] =
          repeat(*living_[m], living_[m]->outcome.batch, living_[m]->outcome.order.size());
      living_[m]->outcome.order.push_back((*bench_.sequence)++);
    }
  }
  reduce_batch(std::move(samples));
}

void PointRun::reduce_batch(std::vector<Sample> mine) {
  const std::size_t methods = living_.size();
  if (point_.arrival != Arrival{} && clock_) count_from_last_arrival(mine, sync_);
  const std::vector<Repetition> all = over_ranks(mine, clock_.has_value(), sync_);
  std::size_t late = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Repetition& r = all[k];
    Outcome& o = living_[k % methods]->outcome;
    o.t_max.push_back(r.t_max);
    o.t_span.push_back(r.t_span);
    o.skew_in.push_back(r.skew_in);
    o.valid.push_back(r.began == Began::in_time ? 1 : 0);
    o.compute_s.push_back(r.compute_s);
    for (std::size_t p = 0; p < kPhases; ++p) o.phase_s[p].push_back(r.phase_s[p]);
    late += r.began == Began::late ? 1 : 0;
  }
  if (root()) starter_->adapt(static_cast<double>(late) / static_cast<double>(all.size()));
  if (!options_.keep_ranks) return;
  const std::vector<double> times = of_every_rank(mine, sync_);
  const auto ranks = static_cast<std::size_t>(size_);
  for (std::size_t k = 0; k < times.size(); ++k)
    living_[k / ranks % methods]->outcome.t_rank.push_back(times[k]);
}

// "" while the method needs more repetitions. Only valid repetitions count for the statistics, but the number
// of invalid ones is limited too.
std::string PointRun::finished(const Entry& entry, std::size_t done, double now) const {
  if (options_.iters > 0) return done >= static_cast<std::size_t>(options_.iters) ? "max_reps" : "";
  const auto fewest = static_cast<std::size_t>(options_.min_reps);
  const std::vector<double> times = valid_times(entry.outcome);
  if (times.size() < fewest && done < kMostTries * fewest) return "";
  if (times.size() >= fewest && relative_half_width(summarize(times)) <= options_.rel_ci) return "ci";
  if (done >= static_cast<std::size_t>(options_.max_reps)) return "max_reps";
  if (now - began_s_ >= options_.point_time_s * static_cast<double>(living_.size())) return "budget";
  return "";
}

// On rank 0: the number of repetitions at the next check. `done` means stop.
std::size_t PointRun::next_target(std::size_t done) {
  const double now = now_s();
  bool all = true;
  for (Entry* e : living_) {
    e->outcome.stop_reason = finished(*e, done, now);
    all = all && !e->outcome.stop_reason.empty();
  }
  const bool late = now >= bench_.deadline_s && done >= kFewestReps;
  for (Entry* e : living_)
    if (late && e->outcome.stop_reason.empty()) e->outcome.stop_reason = "deadline";
  if (all || late) return done;
  const auto fewest = static_cast<std::size_t>(options_.iters > 0 ? options_.iters : options_.min_reps);
  const auto most = static_cast<std::size_t>(options_.iters > 0 ? options_.iters : options_.max_reps);
  double target =
      done < fewest ? static_cast<double>(fewest) : std::ceil(kGrowth * static_cast<double>(done));
  if (done >= kFewestReps) {
    // Limited by the time that is left, at the pace so far.
    const double pace = (now - began_s_) / static_cast<double>(done);
    double left = bench_.deadline_s - now;
    if (done >= fewest)
      left = std::min(left, options_.point_time_s * static_cast<double>(living_.size()) - (now - began_s_));
    target = std::min(target, static_cast<double>(done) + std::ceil(left / pace));
  } else if (std::isfinite(bench_.deadline_s)) {
    target = static_cast<double>(kFewestReps);
  }
  return std::clamp(static_cast<std::size_t>(target), done + 1, std::max(most, done + 1));
}

void PointRun::run_blocks() {
  for (Entry& e : entries_)
    if (e.lives()) living_.push_back(&e);
  if (living_.empty()) return;
  began_s_ = now_s();
  for (std::uint64_t done = 0;;) {
    std::uint64_t target = root() ? next_target(done) : 0;
    PMPI_Bcast(&target, 1, MPI_UINT64_T, 0, sync_);
    if (target == done) break;
    run_batch(target - done);
    done = target;
  }
}

// Counters of energy change a thousand times a second only. So many calls of one method run between two
// readings.
void PointRun::measure_energy(Entry& entry) {
  if (bench_.meter == nullptr || !entry.lives()) return;
  const double each = root() ? summarize(valid_times(entry.outcome)).median : 0;
  std::int32_t calls =
      each > 0
          ? static_cast<std::int32_t>(std::clamp(std::ceil(options_.energy_s / each), 1.0, kMostEnergyCalls))
          : 1;
  PMPI_Bcast(&calls, 1, MPI_INT32_T, 0, sync_);
  entry.outcome.energy =
      energy_of(*bench_.meter, calls, sync_, [&](std::size_t i) { (void)repeat(entry, 1, i); });
}

void PointRun::count_events_of(Entry& entry) {
  if (bench_.counters == nullptr || !entry.lives()) return;
  const bool has_steps = entry.variant->ours() && !options_.sparse && options_.memory == Place::host;
  entry.outcome.counts = count_events(*bench_.counters, has_steps, entry.variant->calls_each(), sync_,
                                      [&](std::size_t i) { (void)repeat(entry, 1, i); });
}

void PointRun::last_look(Entry& entry) {
  if (!entry.lives()) return;
  agree_on_errors(entry, "timed calls");
  Outcome& o = entry.outcome;
  // valid is the same on all ranks.
  if (!o.valid.empty() && valid_times(o).empty()) {
    fail(entry, "failed", fmt::format("in all {} repetitions some rank began too late", o.valid.size()));
    o.stop_reason = "error";
  }
  if (entry.variant->ours() && !o.order.empty()) {
    const MPIQ_Stats after = entry.variant->stats();
    std::array<std::uint64_t, 3> most{after.wire_bytes_sent - entry.before.wire_bytes_sent,
                                      after.scratch_bytes, after.residual_bytes};
    std::uint64_t sum = most[0];
    PMPI_Allreduce(MPI_IN_PLACE, most.data(), 3, MPI_UINT64_T, MPI_MAX, sync_);
    PMPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, sync_);
    const std::uint64_t calls = (o.order.size() * static_cast<std::uint64_t>(o.batch) +
                                 static_cast<std::uint64_t>(std::max(o.energy.calls, 0) + o.counts.calls)) *
                                static_cast<std::uint64_t>(entry.variant->calls_each());
    o.wire_bytes_max = static_cast<std::int64_t>(most[0] / calls);
    o.wire_bytes_sum = static_cast<std::int64_t>(sum / calls);
    o.scratch_bytes = static_cast<std::int64_t>(most[1]);
    o.residual_bytes = static_cast<std::int64_t>(most[2]);
  }
  if (!options_.check || !entry.lives()) return;
  turn_ = 0;  // the buffers that the reference is made for
  (void)repeat(entry);
  agree_on_errors(entry, "last call");
  if (!entry.lives()) return;
  // A method with a residual may give another result than in its first call, but its replicas must be equal.
  const ResultErrors v = entry.variant->compare(entry.variant->exact() && !entry.variant->carries());
  if (entry.variant->chooses()) o.errors = v;  // its first calls are exact
  if (v.n_wrong > 0)
    fail(entry, "invalid", fmt::format("{} wrong elements after the timed calls", v.n_wrong));
  if (!v.replicas_equal && entry.variant->ours())
    fail(entry, "invalid", "ranks ended with different bits after the timed calls");
  check_guards(entry);
}

std::vector<Outcome> PointRun::run() {
  for (Entry& e : entries_)
    if (e.lives()) first_call(e);
  for (Entry& e : entries_)
    if (e.lives()) warm_up(e);
  share_batch();
  run_blocks();
  for (Entry& e : entries_) measure_energy(e);
  for (Entry& e : entries_) count_events_of(e);
  for (Entry& e : entries_) last_look(e);
  const bool unchanged = !options_.check || workload_.all_inputs_intact();
  if (!all_agree(unchanged, sync_))
    for (Entry& e : entries_)
      if (e.outcome.status != "skipped")
        fail(e, "invalid", "a send buffer changed during the timed calls of this point");
  std::vector<Outcome> outcomes;
  for (Entry& e : entries_) outcomes.push_back(std::move(e.outcome));
  return outcomes;
}

}  // namespace

std::vector<double> valid_times(const Outcome& outcome) {
  std::vector<double> times;
  for (std::size_t k = 0; k < outcome.t_max.size(); ++k)
    if (outcome.valid[k] != 0) times.push_back(outcome.t_max[k]);
  return times;
}

std::vector<Outcome> measure(const Bench& bench, const Point& point, Workload& workload, MPI_Comm comm) {
  return PointRun(bench, point, workload, comm).run();
}

}  // namespace mq::bench
