// mpiq-simulate: the points of the command line one after the other, in the result file of mpiq-bench. All
// rows have the status "simulated" and so are never taken for measured ones.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/build_info.hpp"
#include "bench/clock.hpp"
#include "bench/console.hpp"
#include "bench/lock_file.hpp"
#include "bench/metadata.hpp"
#include "bench/points.hpp"
#include "bench/report.hpp"
#include "bench/research/simulate/dense.hpp"
#include "bench/research/simulate/footprint.hpp"
#include "bench/research/simulate/model.hpp"
#include "bench/research/simulate/options.hpp"
#include "bench/research/simulate/sparse_point.hpp"
#include "bench/tabulate.hpp"
#include "mpi_quant/base/json.hpp"

namespace mq::sim {
namespace {

using bench::Measurement;
using bench::Outcome;
using bench::Point;

constexpr const char* kNote = "in virtual time, by mpiq-simulate";

class Simulation {
 public:
  Simulation(const SimulateOptions& options, std::string command_line)
      : options_(options), command_line_(std::move(command_line)) {}
  int run();

 private:
  Status prepare();
  Status open_report();
  Status do_point(const Point& point);
  void print_model(const Point& point) const;
  // Small numbers of ranks may be fewer than a node holds.
  Network network_of(int ranks) const {
    Network n = options_.network;
    n.per_node = std::min(n.per_node, ranks);
    return n;
  }
  Status check_method(const Point& point, const bench::MethodWord& word) const;
  SimulatedResult result_of(const Point& point, const bench::MethodWord& word, std::string& note) const;
  SimulatedCall call_of(const Point& point, const bench::MethodWord& word) const;
  bench::InputRow input_of(const Point& point) const;
  Outcome outcome_of(const Point& point, const bench::MethodWord& word);

  SimulateOptions options_;
  std::string command_line_;
  std::vector<Point> points_;
  std::optional<Rates> rates_;
  bench::LockFile lock_;
  std::optional<bench::Report> report_;
  std::uint32_t sequence_ = 0;
  int exit_code_ = bench::kDone;
};

SimulatedCall Simulation::call_of(const Point& point, const bench::MethodWord& word) const {
  SimulatedCall call;
  call.collective = options_.sweep.collective;
  call.method = word.method;
  call.element = point.element;
  call.count = point.count;
  call.ranks = point.ranks;
  call.feedback = options_.sweep.feedback;
  call.is_warm = options_.sweep.buffers == bench::Buffers::warm;
  call.step_s = options_.step_s;
  call.segments = options_.segments;
  call.repeats = options_.calls;
  return call;
}

// Everything that is wrong with the command line.
Status Simulation::prepare() {
  if (!options_.rates_path.empty()) {  // sparse reductions alone need none
    auto rates = Rates::read(options_.rates_path, options_.isa);
    if (!rates.ok()) return {Code::bad_argument, "--rates: " + rates.status().text()};
    rates_ = std::move(*rates);
  }
  auto points = bench::make_points(options_.sweep, options_.sweep.ranks.back());
  if (!points.ok()) return points.status();
  points_ = std::move(*points);
  for (const Point& point : points_)
    for (const bench::MethodWord& word : point.methods)
      if (const Status s = check_method(point, word); !s.ok())
        return {Code::bad_argument, fmt::format("{} at {} ranks: {}", word.text, point.ranks, s.text())};
  return options_.asks_model ? Status{} : open_report();
}

Status Simulation::check_method(const Point& point, const bench::MethodWord& word) const {
  if (word.method.chooses())
    return {Code::bad_argument, "auto chooses by what calls take: tests/automatic simulates it"};
  if (word.dense != bench::Dense::host) return {Code::bad_argument, "no GPU is simulated"};
  if (!word.sparse) return check(call_of(point, word), network_of(point.ranks), *rates_);
  const auto reduction = reduction_of(options_.sweep, point, *word.sparse, options_.list_costs);
  return reduction.ok() ? check(*reduction, network_of(point.ranks)) : reduction.status();
}

SimulatedResult Simulation::result_of(const Point& point, const bench::MethodWord& word,
                                      std::string& note) const {
  if (!word.sparse && word.method.exact()) {
    DenseResult result = simulate_dense(call_of(point, word), network_of(point.ranks), *rates_);
    note += fmt::format(": {}", result.algorithm);
    return std::move(result.simulated);
  }
  if (!word.sparse) return simulate(call_of(point, word), network_of(point.ranks), *rates_);
  SparseReduction reduction = *reduction_of(options_.sweep, point, *word.sparse, options_.list_costs);
  make_lists(options_.sweep, point, reduction);
  SparseResult result = simulate(reduction, network_of(point.ranks));
  if (reduction.kind == SparseReduction::Kind::make_union)
    fmt::print("# {} is {}\n", word.text,
               sparse::kAlgorithmNames[static_cast<std::size_t>(result.algorithm)]);
  else
    fmt::print("# {} has the degrees {}\n", word.text, fmt::join(result.degrees, "x"));
  return std::move(result.simulated);
}

Status Simulation::open_report() {
  const bench::BuildInfo& build = bench::build_info();
  bench::RunInfo run;
  run.command_line = command_line_;
  run.config_json = bench::config_json(options_.sweep);
  run.mpi_library = "none: simulated";
  run.git_commit = build.git_commit;
  run.git_dirty = build.git_dirty;
  run.harness_version = build.version;
  run.build = fmt::format("{}, {}, {}", build.build_type, build.compiler, build.flags);
  run.isa = rates_ ? rates_->isa() : "";
  run.sync_method = "none: all ranks enter a call at time 0";
  run.seed = options_.sweep.data.seed;
  run.clock_resolution_s = run.clock_cost_s = 0;
  if (!options_.sweep.output.empty()) {
    auto lock = bench::LockFile::acquire(options_.sweep.output + ".lock",
                                         options_.sweep.resume == bench::Resume::force);
    if (!lock.ok()) return lock.status();
    lock_ = std::move(*lock);
  }
  auto report = bench::Report::open(options_.sweep.output, options_.sweep.resume, run);
  if (!report.ok()) return report.status();
  report_.emplace(std::move(*report));
  return report_->save(bench::FileState::running);
}

bench::InputRow Simulation::input_of(const Point& point) const {
  if (options_.sweep.sparse) return input_of_lists(options_.sweep, point);
  bench::InputRow input;
  input.distribution = to_string(options_.sweep.data);
  input.seed = options_.sweep.data.seed;
  input.rho = 0;
  input.exp_min = input.exp_max = 0;  // as files before had it: rows of equal inputs are merged
  return input;
}

Outcome Simulation::outcome_of(const Point& point, const bench::MethodWord& word) {
  Outcome out;
  out.note = kNote;
  const SimulatedResult result = result_of(point, word, out.note);
  out.status = result.status.ok() ? "simulated" : "failed";
  if (!result.status.ok()) out.note = result.status.text();
  if (!result.status.ok()) return out;
  const SimulatedRank& last = result.last();
  out.stop_reason = "max_reps";
  out.t_first_s = last.end_s;
  out.t_max = {last.end_s};
  out.t_span = out.skew_in = {bench::kUnknown};
  out.valid = {1};
  out.order = {sequence_++};
  const std::array<double, bench::kOther> known{last.encode_s, last.wait_s, last.decode_s};
  out.phase_s[bench::kOther] = {last.end_s};
  for (std::size_t phase = 0; phase < known.size(); ++phase) {
    out.phase_s[phase] = {known[phase]};
    out.phase_s[bench::kOther][0] -= known[phase];
  }
  out.wire_bytes_max = out.wire_bytes_sum = 0;
  for (const SimulatedRank& rank : result.ranks) {
    const auto bytes = static_cast<std::int64_t>(rank.frame_bytes);
    out.wire_bytes_max = std::max(out.wire_bytes_max, bytes);
    out.wire_bytes_sum += bytes;
  }
  return out;
}

Status Simulation::do_point(const Point& point) {
  const Network network = network_of(point.ranks);
  bench::Circumstances c;
  c.placement = {point.ranks / network.per_node, network.per_node};
  const bool is_done = std::all_of(point.methods.begin(), point.methods.end(), [&](const auto& m) {
    return report_->done(bench::hash128(variables_json(options_.sweep, point, m, c.placement)));
  });
  if (is_done) return {};
  auto input_id = report_->add_input(input_of(point));
  if (!input_id.ok()) return input_id.status();
  c.input_id = *input_id;
  c.start_utc = bench::utc_now();
  const double start = bench::now_s();
  std::vector<Outcome> outcomes;
  for (const bench::MethodWord& word : point.methods) outcomes.push_back(outcome_of(point, word));
  c.wall_s = bench::now_s() - start;
  std::vector<Measurement> rows = tabulate(options_.sweep, point, c, std::move(outcomes));
  MQ_TRY(report_->add(rows));
  for (const Measurement& m : rows) {
    bench::print_row(m.row);
    if (m.row.status.str() != "simulated") exit_code_ = bench::kPointFailed;
  }
  return report_->save(bench::FileState::running);
}

void Simulation::print_model(const Point& point) const {
  for (const bench::MethodWord& word : point.methods) {
    const SimulatedCall call = call_of(point, word);
    const Cost cost = model_of(call, network_of(point.ranks), *rates_);
    std::string amounts;
    for (std::size_t i = 0; i < kTermNames.size(); ++i)
      amounts += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", kTermNames[i], cost.amounts.of[i]);
    fmt::print(
        R"({{"ranks":{},"bytes":{},"dtype":"{}","method":{},"plan":"{}","seconds":{},"amounts":{{{}}}}})"
        "\n",
        point.ranks, point.bytes(), kernels::name(point.element), json_quote(word.text),
        call.method.exact() ? std::string_view("mpi") : plan_of(call).name, cost.seconds, amounts);
  }
}

int Simulation::run() {
  Status status = prepare();
  if (!status.ok()) {
    fmt::print(stderr, "mpiq-simulate: {}\n", status.text());
    return bench::kUsage;
  }
  if (options_.asks_model) {
    for (const Point& point : points_) print_model(point);
    return exit_code_;
  }
  for (const Point& point : points_)
    if (status.ok()) status = do_point(point);
  if (status.ok()) status = report_->save(bench::FileState::complete);
  if (status.ok()) return exit_code_;
  fmt::print(stderr, "mpiq-simulate: {}\n", status.text());
  return bench::kPointFailed;
}

}  // namespace
}  // namespace mq::sim

int main(int argc, char** argv) {
  const mq::sim::SimulateCommandLine line = mq::sim::parse_simulate(argc, argv);
  if (!line.run) {
    mq::bench::print_texts(line.out, line.err);
    return line.exit_code;
  }
  const std::string command_line = mq::bench::command_line_text(argc, argv);
  try {
    if (line.options.prints_footprints) mq::bench::print_out(mq::sim::footprint_table(1024));
    if (line.options.measures_lists)
      mq::bench::print_out(mq::sim::text_of(mq::sim::measure_list_costs()) + "\n");
    if (line.options.prints_footprints || line.options.measures_lists) return mq::bench::kDone;
    return mq::sim::Simulation(line.options, command_line).run();
  } catch (const std::bad_alloc&) {
    std::fputs("mpiq-simulate: not enough memory: fewer ranks, or a plan with fewer messages\n", stderr);
    return mq::bench::kPointFailed;
  }
}
