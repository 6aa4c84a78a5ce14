#include "bench/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/call.hpp"
#include "bench/mpi_algorithm.hpp"
#include "bench/random.hpp"
#include "bench/stats.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

constexpr double kSteady = 0.10;  // warm-up is over when the last three calls lie within this
constexpr int kMostWarmup = 50;
constexpr double kMostWarmup_s = 0.5;
constexpr double kGrowth = 1.5;         // of the number of repetitions between two looks at the interval
constexpr std::size_t kFewestReps = 6;  // below, the median has no 95 % interval

// One call on this rank.
struct Sample {
  double start_s = 0, end_s = 0;
  std::array<double, kOther> phase_s{};
};

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
    Outcome outcome;
    MPIQ_Stats before{};
    int error = MPI_SUCCESS;
    bool lives() const { return outcome.status == "ok"; }
  };

  Sample repeat(Entry& entry);
  void first_call(Entry& entry);
  void warm_up(Entry& entry);
  void run_blocks();
  void run_batch(std::size_t blocks);
  void reduce_batch(const std::vector<Sample>& mine, std::size_t blocks);
  std::size_t next_target(std::size_t done);
  std::string finished(const Entry& entry, std::size_t done, double now) const;
  void last_look(Entry& entry);
  void check_guards(Entry& entry);
  void fail(Entry& entry, std::string_view status, std::string note);
  bool root() const { return rank_ == 0; }
  void agree_on_errors(Entry& entry, std::string_view when);

  const Bench& bench_;
  const Options& options_;
  Workload& workload_;
  MPI_Comm sync_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::size_t turn_ = 0;
  std::vector<Entry> entries_;
  std::vector<Entry*> living_;
  std::vector<std::size_t> rows_;  // what is left of the present Latin square
  std::vector<std::size_t> base_;
  Random random_;
  double began_s_ = 0;
};

PointRun::PointRun(const Bench& bench, const Point& point, Workload& workload, MPI_Comm comm)
    : bench_(bench), options_(bench.options), workload_(workload), random_(bench.order_seed) {
  PMPI_Comm_dup(comm, &sync_);
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  workload_.arm_guards();
  entries_.resize(point.methods.size());
  for (std::size_t m = 0; m < entries_.size(); ++m) {
    entries_[m].algorithm = point.methods[m].algorithm;
    entries_[m].variant = workload_.variant(point.methods[m]);
  }
}

// Everything but the call itself happens outside of the measured time.
Sample PointRun::repeat(Entry& entry) {
  workload_.prepare(turn_++);
  const MPIQ_Stats before = entry.variant->stats();
  const MpiAlgorithm chosen(entry.algorithm);
  dissemination_barrier(sync_);
  Sample s;
  s.start_s = now_s();
  const int error = entry.variant->call();
  s.end_s = now_s();
  if (error != MPI_SUCCESS) entry.error = error;
  const MPIQ_Stats after = entry.variant->stats();
  s.phase_s = {after.encode_s - before.encode_s, after.wait_s - before.wait_s,
               after.decode_s - before.decode_s};
  return s;
}

void PointRun::fail(Entry& entry, std::string_view status, std::string note) {
  entry.outcome.status = status;
  if (entry.outcome.note.empty()) entry.outcome.note = std::move(note);
}

// A call may have failed on one rank only; rank 0 gets the text of the first that knows one.
void PointRun::agree_on_errors(Entry& entry, std::string_view when) {
  int first = entry.error == MPI_SUCCESS ? size_ : rank_;
  PMPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, sync_);
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

// The first call on an empty residual gives the error that is reported, and the price of connections and
// plans.
void PointRun::first_call(Entry& entry) {
  turn_ = 0;
  const Sample s = repeat(entry);
  double t = s.end_s - s.start_s;
  PMPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, sync_);
  entry.outcome.t_first_s = t;
  agree_on_errors(entry, "first call");
  if (!entry.lives() || !options_.check) return;
  const Verdict v = entry.variant->compare(entry.variant->exact());
  entry.outcome.verdict = v;
  if (v.n_wrong > 0) fail(entry, "invalid", fmt::format("{} wrong elements in the first call", v.n_wrong));
  // MPI does not promise it of its own reduction.
  if (!v.replicas_equal && entry.variant->ours()) fail(entry, "invalid", "ranks ended with different bits");
  check_guards(entry);
  if (all_agree(workload_.input_intact(), sync_)) return;
  fail(entry, "invalid", "changed the send buffer");
  workload_.restore_input();
}

// Once broken, they are made anew, so that the next method is not blamed.
void PointRun::check_guards(Entry& entry) {
  if (all_agree(workload_.guards_intact(), sync_)) return;
  fail(entry, "invalid", "wrote outside of the receive buffer");
  workload_.arm_guards();
}

void PointRun::warm_up(Entry& entry) {
  std::array<double, 3> last{};
  const double start = now_s();
  for (int go_on = 1; go_on != 0;) {
    const Sample s = repeat(entry);
    last = {last[1], last[2], s.end_s - s.start_s};
    ++entry.outcome.warmup;
    const int n = entry.outcome.warmup;
    const auto [lo, hi] = std::minmax_element(last.begin(), last.end());
    const bool steady = n >= 3 && *hi - *lo <= kSteady * *lo;
    const bool enough = steady || n >= kMostWarmup || now_s() - start >= kMostWarmup_s;
    go_on = n < options_.warmup || !enough ? 1 : 0;
    PMPI_Bcast(&go_on, 1, MPI_INT, 0, sync_);
  }
  agree_on_errors(entry, "warm-up");
  entry.before = entry.variant->stats();
}

// Blocks follow the rows of cyclic Latin squares: every method once in every place, then a new random square.
void PointRun::run_batch(std::size_t blocks) {
  const std::size_t methods = living_.size();
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
      samples[b * methods + m] = repeat(*living_[m]);
      living_[m]->outcome.order.push_back((*bench_.sequence)++);
    }
  }
  reduce_batch(samples, blocks);
}

void PointRun::reduce_batch(const std::vector<Sample>& mine, std::size_t blocks) {
  struct TimeRank {
    double t;
    int rank;
  };
  const std::size_t n = mine.size(), methods = living_.size();
  const int count = static_cast<int>(n);
  std::vector<TimeRank> critical(n);
  std::vector<double> first(n), last_start(n), last_end(n), phases(kOther * n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    critical[k] = {mine[k].end_s - mine[k].start_s, rank_};
    first[k] = -mine[k].start_s;
    last_start[k] = mine[k].start_s;
    last_end[k] = mine[k].end_s;
  }
  PMPI_Allreduce(MPI_IN_PLACE, critical.data(), count, MPI_DOUBLE_INT, MPI_MAXLOC, sync_);
  for (auto* series : {&first, &last_start, &last_end})
    PMPI_Allreduce(MPI_IN_PLACE, series->data(), count, MPI_DOUBLE, MPI_MAX, sync_);
  for (std::size_t k = 0; k < n; ++k)
    if (critical[k].rank == rank_)
      std::copy(mine[k].phase_s.begin(), mine[k].phase_s.end(), &phases[kOther * k]);
  PMPI_Allreduce(MPI_IN_PLACE, phases.data(), static_cast<int>(phases.size()), MPI_DOUBLE, MPI_SUM, sync_);
  for (std::size_t k = 0; k < blocks * methods; ++k) {
    Outcome& o = living_[k % methods]->outcome;
    double rest = critical[k].t;
    o.t_max.push_back(critical[k].t);
    o.t_span.push_back(bench_.one_clock ? last_end[k] + first[k] : kUnknown);
    o.skew_in.push_back(bench_.one_clock ? last_start[k] + first[k] : kUnknown);
    for (std::size_t p = 0; p < kOther; ++p) {
      o.phase_s[p].push_back(phases[kOther * k + p]);
      rest -= phases[kOther * k + p];
    }
    o.phase_s[kOther].push_back(rest);
  }
}

// "" while the method needs more repetitions.
std::string PointRun::finished(const Entry& entry, std::size_t done, double now) const {
  if (options_.iters > 0) return done >= static_cast<std::size_t>(options_.iters) ? "max_reps" : "";
  if (done < static_cast<std::size_t>(options_.min_reps)) return "";
  if (relative_half_width(summarize(entry.outcome.t_max)) <= options_.rel_ci) return "ci";
  if (done >= static_cast<std::size_t>(options_.max_reps)) return "max_reps";
  if (now - began_s_ >= options_.point_time_s * static_cast<double>(living_.size())) return "budget";
  return "";
}

// Rank 0: how many repetitions there are to be at the next look; `done` means stop.
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
    // Not further than the time left allows, at the pace so far.
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

void PointRun::last_look(Entry& entry) {
  if (!entry.lives()) return;
  agree_on_errors(entry, "timed calls");
  Outcome& o = entry.outcome;
  if (entry.variant->ours() && !o.order.empty()) {
    const MPIQ_Stats after = entry.variant->stats();
    std::array<std::uint64_t, 3> most{after.wire_bytes_sent - entry.before.wire_bytes_sent,
                                      after.scratch_bytes, after.residual_bytes};
    std::uint64_t sum = most[0];
    PMPI_Allreduce(MPI_IN_PLACE, most.data(), 3, MPI_UINT64_T, MPI_MAX, sync_);
    PMPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, sync_);
    o.wire_bytes_max = static_cast<std::int64_t>(most[0] / o.order.size());
    o.wire_bytes_sum = static_cast<std::int64_t>(sum / o.order.size());
    o.scratch_bytes = static_cast<std::int64_t>(most[1]);
    o.residual_bytes = static_cast<std::int64_t>(most[2]);
  }
  if (!options_.check || !entry.lives()) return;
  turn_ = 0;  // the buffers that the reference was made for
  (void)repeat(entry);
  agree_on_errors(entry, "last call");
  if (!entry.lives()) return;
  // A method with a residual rightly differs from its first call; its replicas may not.
  const Verdict v = entry.variant->compare(entry.variant->exact() && !entry.variant->carries());
  if (v.n_wrong > 0)
    fail(entry, "invalid", fmt::format("{} wrong elements after the timed calls", v.n_wrong));
  if (!v.replicas_equal && entry.variant->ours())
    fail(entry, "invalid", "ranks ended with different bits after the timed calls");
  check_guards(entry);
}

std::vector<Outcome> PointRun::run() {
  for (Entry& e : entries_) first_call(e);
  for (Entry& e : entries_)
    if (e.lives()) warm_up(e);
  run_blocks();
  for (Entry& e : entries_) last_look(e);
  const bool unchanged = !options_.check || workload_.all_inputs_intact();
  if (!all_agree(unchanged, sync_))
    for (Entry& e : entries_)
      fail(e, "invalid", "a send buffer changed during the timed calls of this point");
  std::vector<Outcome> outcomes;
  for (Entry& e : entries_) outcomes.push_back(std::move(e.outcome));
  return outcomes;
}

}  // namespace

std::vector<Outcome> measure(const Bench& bench, const Point& point, Workload& workload, MPI_Comm comm) {
  return PointRun(bench, point, workload, comm).run();
}

}  // namespace mq::bench
