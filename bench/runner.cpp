// long on purpose: one sweep from its preparation to its exit code
#include "bench/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "bench/build_info.hpp"
#include "bench/check.hpp"
#include "bench/console.hpp"
#include "bench/counters.hpp"
#include "bench/dense_workload.hpp"
#include "bench/detour.hpp"
#include "bench/layers.hpp"
#include "bench/link.hpp"
#include "bench/lock_file.hpp"
#include "bench/metadata.hpp"
#include "bench/orders.hpp"
#include "bench/output.hpp"
#include "bench/random.hpp"
#include "bench/sparse_workload.hpp"
#include "bench/stats.hpp"
#include "bench/sync.hpp"
#include "bench/tabulate.hpp"

namespace mq::bench {
namespace {

constexpr int kSkewBarriers = 100;
constexpr double kDetours_s = 0.01;                            // of each point, before it
constexpr std::size_t kMostLayersText = std::size_t{1} << 24;  // bytes of a file of layers

class Sweep {
 public:
  Sweep(const Options& options, const std::string& command_line, MPI_Comm comm);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;
  int run();

 private:
  bool root() const { return rank_ == 0; }
  int prepare();
  Status read_layers();
  Status open_recording(const std::vector<Point>& points);
  Status open_gpu();
  void open_counters();
  bool agreed(const Status& mine);
  Status begin_report(double barrier_skew_s);
  void lead();
  void follow();
  void do_point(std::size_t index);
  Status record(const Point& point, const Circumstances& c, std::vector<Outcome> outcomes);
  MPI_Comm comm_of(int ranks);
  bool already_done(const Point& point) const;
  std::string key(const Point& point, const MethodWord& method) const;
  Placement placement(const Point& p) const {
    return {topology_.nodes_of(p.ranks), topology_.ranks_per_node(p.ranks)};
  }
  bool gate_holds() const;
  double barrier_skew();

  Options options_;  // with the contents of --layers after prepare()
  std::string command_line_;
  MPI_Comm launch_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double start_s_;
  double clock_resolution_s_ = clock_resolution_s(), clock_cost_s_ = clock_cost_s();
  std::shared_ptr<const Recording> recording_;
  std::shared_ptr<const Gpu> gpu_;
  Topology topology_;
  std::vector<Point> points_;
  std::unique_ptr<Collective> collective_;
  std::vector<std::pair<int, MPI_Comm>> comms_;
  std::uint32_t sequence_ = 0;
  std::unique_ptr<EnergyMeter> meter_;
  std::unique_ptr<Counters> counters_;
  // Rank 0 only.
  LockFile lock_;
  std::optional<Report> report_;
  std::string uncounted_;  // of --counters
  Output output_{options_};
  int exit_code_ = kDone;
};

Sweep::Sweep(const Options& options, const std::string& command_line, MPI_Comm comm)
    : options_(options), command_line_(command_line), start_s_(now_s()) {
  PMPI_Comm_dup(comm, &launch_);
  PMPI_Comm_rank(launch_, &rank_);
  PMPI_Comm_size(launch_, &size_);
}

Sweep::~Sweep() {
  for (auto& [ranks, comm] : comms_)
    if (comm != MPI_COMM_NULL) PMPI_Comm_free(&comm);
  PMPI_Comm_free(&launch_);
}

// The median of the time from the first to the last rank that leaves the barrier.
double Sweep::barrier_skew() {
  if (!topology_.one_clock(size_)) return kUnknown;
  std::vector<double> skews;
  for (int i = 0; i < kSkewBarriers; ++i) {
    dissemination_barrier(launch_);
    const double now = now_s();
    double last = now, first = -now;
    PMPI_Allreduce(MPI_IN_PLACE, &last, 1, MPI_DOUBLE, MPI_MAX, launch_);
    PMPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_DOUBLE, MPI_MAX, launch_);
    skews.push_back(last + first);
  }
  return summarize(skews).median;
}

Status Sweep::begin_report(double barrier_skew_s) {
  const BuildInfo& build = build_info();
  RunInfo run;
  run.command_line = command_line_;
  run.config_json = config_json(options_);
  run.mpi_library = mpi_library();
  run.git_commit = build.git_commit;
  run.git_dirty = build.git_dirty;
  run.harness_version = build.version;
  run.build = fmt::format("{}, {}, {}", build.build_type, build.compiler, build.flags);
  run.isa = isa_name();
  run.sync_method = description(options_.sync);
  run.seed = options_.data.seed;
  run.clock_resolution_s = clock_resolution_s_;
  run.clock_cost_s = clock_cost_s_;
  run.barrier_skew_s = barrier_skew_s;
  run.env = allowed_environment();
  run.nodes = topology_.nodes;
  run.ranks = topology_.ranks;
  run.gpus = topology_.gpus;
  if (!options_.output.empty()) {
    auto lock = LockFile::acquire(options_.output + ".lock", options_.resume == Resume::force);
    if (!lock.ok()) return lock.status();
    lock_ = std::move(*lock);
  }
  auto report = Report::open(options_.output, options_.resume, run);
  if (!report.ok()) return report.status();
  report_.emplace(std::move(*report));
  if (!uncounted_.empty()) MQ_TRY(report_->add_event("warning", -1, "--counters: " + uncounted_));
  return report_->save(FileState::running);  // checks now whether the file can be written
}

// The same answer on all ranks. The first rank that has an error prints it.
bool Sweep::agreed(const Status& mine) {
  const int first = first_no(mine.ok(), launch_);
  if (first == rank_) print_error(mine.text());
  return first == size_;
}

// All ranks use the file of rank 0, because layers decide what is sent.
Status Sweep::read_layers() {
  if (options_.layers_file.empty()) return {};
  std::string text;
  Status status;
  if (root()) {
    std::ifstream file(options_.layers_file, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (!file.is_open() || file.bad() || text.size() > kMostLayersText)
      status = {Code::bad_argument, fmt::format("--layers: {} cannot be read", options_.layers_file)};
  }
  int length = status.ok() ? static_cast<int>(text.size()) : -1;
  PMPI_Bcast(&length, 1, MPI_INT, 0, launch_);
  if (length < 0) return status;
  text.resize(static_cast<std::size_t>(length));
  PMPI_Bcast(text.data(), length, MPI_CHAR, 0, launch_);
  auto layers = parse_layers(text);
  if (!layers.ok())
    return {Code::bad_argument,
            fmt::format("--layers: {}: {}", options_.layers_file, layers.status().text())};
  options_.layers = std::move(*layers);
  return {};
}

Status Sweep::open_recording(const std::vector<Point>& points) {
  DataSpec& data = options_.data;
  if (data.distribution != Distribution::file) return {};
  std::vector<std::string> layers;
  for (const Point& p : points)
    if (std::find(layers.begin(), layers.end(), p.layer_word()) == layers.end())
      layers.push_back(p.layer_word());
  auto recording = Recording::open(data.path, size_, rank_, options_.elements, data.seed, layers);
  if (!recording.ok()) return {Code::bad_argument, fmt::format("--data: {}", recording.status().text())};
  recording_ = std::move(*recording);
  data.steps = static_cast<int>(recording_->steps());
  return {};
}

Status Sweep::open_gpu() {
  if (options_.memory != Place::cuda) return {};
  auto gpu = Gpu::open(local_rank(launch_));
  if (!gpu.ok()) return {Code::bad_argument, fmt::format("--memory cuda: {}", gpu.status().text())};
  gpu_ = std::move(*gpu);
  return {};
}

// What cannot be counted is unknown in all rows, and one warning says why.
void Sweep::open_counters() {
  if (options_.counters.empty()) return;
  counters_ = std::make_unique<Counters>(options_.counters);
  uncounted_ = uncounted(*counters_, launch_);
  if (root() && !uncounted_.empty()) print_error("warning: --counters: " + uncounted_);
}

// Does everything that can fail before the first measurement. All ranks get the same answer.
int Sweep::prepare() {
  if (options_.expect_ranks > 0 && options_.expect_ranks != size_) {
    if (root())
      print_error(fmt::format("--expect-ranks {}: the launch has {}", options_.expect_ranks, size_));
    return kUsage;
  }
  if (!agreed(read_layers())) return kUsage;
  auto points = make_points(options_, size_);
  if (!points.ok()) {
    if (root()) print_error(points.status().text());
    return kUsage;
  }
  if (!agreed(open_recording(*points))) return kUsage;
  points_ = std::move(*points);
  if (!options_.dry_run && !agreed(open_gpu())) return kUsage;
  topology_ = find_topology(launch_, gpu_.get());
  if (root() && !options_.dry_run) print_header(options_, topology_, mpi_library());
  if (options_.dry_run) {
    if (root()) print_plan(options_, points_, topology_);
    return kDone;
  }
  if (options_.energy_s > 0) {
    const bool of_gpu = topology_.is_first_of_gpu(rank_);
    meter_ = std::make_unique<EnergyMeter>(
        topology_.is_first_of_machine(rank_),
        of_gpu ? topology_.ranks[static_cast<std::size_t>(rank_)].gpu_uuid.str() : "");
  }
  open_counters();
  std::uint64_t largest = 0;
  for (const Point& p : points_) largest = std::max(largest, p.bytes());
  int failed = 0;
  try {
    if (options_.is_link)
      collective_ = make_link_collective(options_);
    else if (options_.sparse)
      collective_ = make_sparse_collective(options_);
    else
      collective_ = make_dense_collective(
          options_, pool_bytes(options_, largest, topology_.ranks_per_node(size_)), rank_, recording_, gpu_);
  } catch (const std::bad_alloc&) {
    print_error(
        fmt::format("rank {}: not enough memory for vectors of {} bytes, see --dry-run", rank_, largest));
    failed = kPointFailed;
  }
  const double skew = barrier_skew();
  if (root() && failed == 0) {
    if (const Status s = begin_report(skew); !s.ok()) {
      print_error(s.text());
      failed = kUsage;
    }
  }
  PMPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, launch_);
  return failed;
}

// The first `ranks` ranks of the launch; MPI_COMM_NULL on the others. Collective over those ranks only.
MPI_Comm Sweep::comm_of(int ranks) {
  for (const auto& [known, comm] : comms_)
    if (known == ranks) return comm;
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  PMPI_Comm_group(launch_, &all);
  int range[1][3] = {{0, ranks - 1, 1}};
  PMPI_Group_range_incl(all, 1, range, &some);
  MPI_Comm comm = MPI_COMM_NULL;
  PMPI_Comm_create_group(launch_, some, ranks, &comm);
  PMPI_Group_free(&some);
  PMPI_Group_free(&all);
  comms_.emplace_back(ranks, comm);
  return comm;
}

std::string Sweep::key(const Point& point, const MethodWord& method) const {
  return hash128(variables_json(options_, point, method, placement(point)));
}

bool Sweep::already_done(const Point& point) const {
  return std::all_of(point.methods.begin(), point.methods.end(),
                     [&](const MethodWord& m) { return report_->done(key(point, m)); });
}

void Sweep::do_point(std::size_t index) {
  const Point& point = points_[index];
  if (rank_ >= point.ranks) return;
  const double start = now_s();
  Circumstances c;
  c.placement = placement(point);
  c.oversubscribed = topology_.oversubscribed(point.ranks);
  c.order_seed = Random(options_.data.seed + index).next();
  c.start_utc = root() ? utc_now() : "";
  const Bench bench{options_,
                    topology_.one_clock(point.ranks),
                    std::max(clock_resolution_s_, 2 * clock_cost_s_),
                    start_s_ + options_.deadline_s,
                    c.order_seed,
                    &sequence_,
                    meter_.get(),
                    counters_.get()};
  const MPI_Comm comm = comm_of(point.ranks);
  c.detours = worst_of(find_detours(kDetours_s), comm);
  std::vector<Outcome> outcomes;
  {
    const std::unique_ptr<Workload> workload = collective_->at(point, comm);
    if (workload) outcomes = measure(bench, point, *workload, comm);
  }
  if (outcomes.empty()) {
    Outcome none;
    none.status = "failed";
    none.note = "not enough memory on some rank";
    outcomes.assign(point.methods.size(), none);
  }
  if (!root()) return;
  c.wall_s = now_s() - start;
  if (const Status s = record(point, c, std::move(outcomes)); !s.ok()) {
    print_error(s.text());
    exit_code_ = kPointFailed;
  }
}

Status Sweep::record(const Point& point, const Circumstances& given, std::vector<Outcome> outcomes) {
  const InputRow input = collective_->input(point);
  const auto input_id = report_->add_input(input);
  if (!input_id.ok()) return input_id.status();
  Circumstances c = given;
  c.input_id = *input_id;
  std::vector<Measurement> rows = tabulate(options_, point, c, std::move(outcomes));
  MQ_TRY(report_->add(rows));
  for (const Measurement& m : rows) {
    output_.add(m, input);
    if (m.row.status.str() == "ok") continue;
    const bool skipped = m.row.status.str() == "skipped";
    if (!skipped) exit_code_ = kPointFailed;
    MQ_TRY(report_->add_event(skipped ? "info" : "error", m.row.point_id, m.row.note.str()));
  }
  return report_->save(FileState::running);
}

// Rank 0 orders one point after another. The first one is always tried, so that repeated short runs make
// progress. A later one is tried only if the longest so far would end before the deadline.
void Sweep::lead() {
  std::vector<std::size_t> todo;
  for (std::size_t i = 0; i < points_.size(); ++i)
    if (!already_done(points_[i])) todo.push_back(i);
  if (todo.size() < points_.size() && options_.format != Format::csv)
    print_out(fmt::format("# {} of {} points are in {}\n", points_.size() - todo.size(), points_.size(),
                          options_.output));
  Progress progress(todo.size());
  double longest = 0;
  std::size_t done = 0;
  for (; done < todo.size(); ++done) {
    const double now = now_s();
    if (done > 0 && now + longest >= start_s_ + options_.deadline_s) break;
    progress.show(done, points_[todo[done]]);
    send_order(launch_, static_cast<int>(todo[done]));
    progress.clear();
    do_point(todo[done]);
    longest = std::max(longest, now_s() - now);
  }
  output_.finish();
  const bool left = done < todo.size();
  if (options_.is_link && !left)
    print_out(
        link_text(points_, [&](const Point& p, const MethodWord& m) { return report_->find(key(p, m)); }));
  const Status saved = report_->save(left ? FileState::partial : FileState::complete);
  if (!saved.ok()) {
    print_error(saved.text());
    exit_code_ = kPointFailed;
  }
  if (left) {
    print_error(fmt::format("deadline: {} of {} points left", todo.size() - done, points_.size()));
    if (saved.ok()) exit_code_ = kPointsLeft;
  } else if (exit_code_ == kDone && !gate_holds()) {
    exit_code_ = kPointFailed;
  }
  send_order(launch_, kNoMorePoints);
}

void Sweep::follow() {
  for (int order = wait_for_order(launch_); order != kNoMorePoints; order = wait_for_order(launch_))
    do_point(static_cast<std::size_t>(order));
}

// Checks --min-speedup for every row of this sweep, also for rows of an earlier run. The lower end of the
// interval counts, not the estimate.
bool Sweep::gate_holds() const {
  bool holds = true;
  for (const Point& p : points_)
    for (const MethodWord& m : p.methods) {
      const MethodWord base{options_.baseline, {}, ""};
      const bool is_base =
          options_.baseline == kBestDense ? is_dense(m) : m.plain_text() == base.plain_text();
      if (options_.min_speedup <= 0 || is_base) continue;  // it is not compared with itself
      const PointRow* row = report_->find(key(p, m));
      if (row != nullptr && row->speedup_lo >= options_.min_speedup) continue;
      print_error(fmt::format("--min-speedup {}: {} {} {} ranks {}: interval begins at {:.3g}",
                              options_.min_speedup, human_size(p.bytes()), name(p.element), p.ranks, m.text,
                              row == nullptr ? kUnknown : row->speedup_lo));
      holds = false;
    }
  return holds;
}

int Sweep::run() {
  if (const int failed = prepare(); failed != kDone || options_.dry_run) return failed;
  root() ? lead() : follow();
  PMPI_Bcast(&exit_code_, 1, MPI_INT, 0, launch_);
  gather_quietly(launch_);
  return exit_code_;
}

}  // namespace

int run_sweep(const Options& options, const std::string& command_line, MPI_Comm comm) {
  return Sweep(options, command_line, comm).run();
}

}  // namespace mq::bench
