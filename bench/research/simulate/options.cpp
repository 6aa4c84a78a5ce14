#include "bench/research/simulate/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/option_table.hpp"
#include "bench/parse.hpp"
#include "bench/parts.hpp"
#include "mpi_quant/base/json.hpp"

namespace mq::sim {
namespace {

using bench::Options;

constexpr const char* kWhat =
    "Simulates compressed allreduce, reduce-scatter, allgather, broadcast or reduction to a root among many ranks: the library's own agreement, plans and executor run over a "
    "network in virtual time, and codec steps take as long as mpiq-kernels measured. It needs no MPI launcher. A "
    "dense call is mpi, which takes the fastest of MPI's algorithms at each point (allreduce: recursive doubling, halving "
    "and doubling, ring; reduce_scatter: recursive halving, ring; allgather: recursive doubling, Bruck, ring; bcast: "
    "binomial tree, scatter and allgather; reduce: binomial tree, halving and gather), or raw or "
    "raw/PLAN, the library's own.\n\n"
    "  mpiq-simulate --ranks 2,64,1024 --sizes 1M,16M --methods mpi,onebit --link lab-10gbit "
    "--rates results/reference/kernels.json -O simulated.h5\n\nLinks by name:\n";

struct Words {
  std::string ranks = "2,16,64,256", sizes = "64K,1M,16M", methods = "mpi,bf16,onebit",
              baseline{bench::kBestDense}, collective = "allreduce", dtype = "f32", link = "lab-10gbit",
              node = "500ns/8GB", buffers = "rotate", resume = "on";
  bool is_sparse = false;
  bench::OptionTexts lists;
  std::string list_costs = text_of(SparseReduction{}.costs);
};

void add_sparse_options(CLI::App& app, SimulateOptions& o, Words& w) {
  app.add_flag(
      "--sparse", w.is_sparse,
      "reduce sparse vectors, by union, kylix and fused of mpiq-bench sparse; dense methods reduce the whole vector");
  w.lists.add(app, bench::kLists, o.sweep);
  for (const char* word : {"--density", "--distribution", "--stride", "--in", "--lists"})
    app.get_option(word)->needs("--sparse");
  app.add_option(
         "--list-costs", w.list_costs,
         "ENCODE/DECODE/MERGE: time of an entry of a list, to write it to a message, to read it from one, and to "
         "merge it with other lists")
      ->capture_default_str();
  app.add_flag("--measure-lists", o.measures_lists,
               "nothing but the list costs of this processor, in the form of --list-costs");
}

void add_network_options(CLI::App& app, SimulateOptions& o, Words& w) {
  app.add_option(
         "--link", w.link,
         "a name, or LATENCY/OVERHEAD/BANDWIDTH[/GAP[/COPY[/BURST]]]: of a path; of the processor for each message at "
         "its sender and at its receiver; of a node's port in each direction; of a port between messages; "
         "of the processor that copies a message into or out of the network, in bytes a second; bytes that a port passes at once")
      ->capture_default_str();
  app.add_option("--per-node", o.network.per_node, "ranks of a node, which share its port")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--node", w.node, "LATENCY/BANDWIDTH of messages inside a node; all share the bandwidth")
      ->capture_default_str();
  app.add_option("--oversubscription", o.network.oversubscription,
                 "of a tree of two levels: the ports of a switch's nodes over its link upwards")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--nodes-per-switch", o.network.nodes_per_switch, "with --oversubscription")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_options(CLI::App& app, SimulateOptions& o, Words& w) {
  app.add_option(
         "--collective", w.collective,
         "allreduce; reduce_scatter, where a size counts the vector that a rank gives; allgather, where it "
         "counts the vector that a rank gets; bcast and reduce, whose root is rank 0")
      ->check(CLI::IsMember({"allreduce", "reduce_scatter", "allgather", "bcast", "reduce"}))
      ->capture_default_str();
  app.add_option("--ranks", w.ranks, "numbers of ranks, each from 2 on")->capture_default_str();
  app.add_option("--sizes", w.sizes, "sizes in bytes; K, M, G = 2^10, 2^20, 2^30")->capture_default_str();
  app.add_option("-d,--dtype", w.dtype, "element types: f32, f64")->capture_default_str();
  app.add_option("--methods", w.methods, "methods to compare, see mpiq-bench --list")->capture_default_str();
  app.add_option(
         "--baseline", w.baseline,
         "method that speed-ups are relative to; best-dense: the fastest of mpi and raw/PLAN at each point")
      ->capture_default_str();
  add_network_options(app, o, w);
  app.add_option("--rates", o.rates_path,
                 "rates of the codecs, as mpiq-kernels --benchmark_out=FILE wrote them");
  app.add_option("--isa", o.isa, "instruction set of the rates [the best of the processor they are of]");
  app.add_option("--step", o.step_s, "seconds of each encode and decode beside its elements")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--segments", o.segments, "segments of a call in flight; 0: as the library chooses")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  app.add_option(
         "--calls", o.calls,
         "calls one after the other, with a barrier before each: the last one counts, which finds the "
         "bursts of ports as the others have left them")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--footprint", o.prints_footprints,
               "nothing but what a call needs on a rank, at some numbers of ranks: a table");
  app.add_flag(
      "--model", o.asks_model,
      "simulate nothing: write what the library's model of time says of each point, as a line of JSON. "
      "amounts is how many of each there are on the longest chain of things that wait for each other: "
      "latencies, overheads of messages, bytes of a port, bytes that the processor copies, elements that are "
      "encoded, decoded, and moved from or to memory, and steps");
  add_sparse_options(app, o, w);
  app.add_flag(bench::kFeedbackFlags, o.sweep.feedback,
               "keep residuals (error feedback) [on, of allgather and bcast off]");
  app.add_option("--buffers", w.buffers,
                 "rotate: a call finds its vectors in memory; warm: those that fit into a cache are there")
      ->check(CLI::IsMember({"rotate", "warm"}))
      ->capture_default_str();
  app.add_option("-O,--output", o.sweep.output, "result file (HDF5), saved after every point");
  app.add_option("--resume", w.resume,
                 "on: go on with a result file that exists; off: refuse; force: even if it "
                 "differs in options or commit")
      ->check(CLI::IsMember({"on", "off", "force"}))
      ->capture_default_str();
}

template <class T>
Status take(std::string_view option, Result<T> value, T& into) {
  if (!value.ok()) return {Code::bad_argument, fmt::format("{}: {}", option, value.status().text())};
  into = std::move(*value);
  return {};
}

// What the result file stores of the network. The label is part of each row's key.
void describe(SimulateOptions& o, const std::string& link) {
  const Network& n = o.network;
  o.sweep.link = "sim:" + link;
  if (n.oversubscription > 1) o.sweep.link += fmt::format(":o{}x{}", n.oversubscription, n.nodes_per_switch);
  o.sweep.simulation = fmt::format(
      R"({{"latency_s":{},"overhead_s":{},"gap_s":{},"copy_s":{},"burst_bytes":{},"bandwidth_Bps":{},"per_node":{},"node_latency_s":{},)"
      R"("node_bandwidth_Bps":{},"oversubscription":{},"nodes_per_switch":{},"rates":{},"isa":{},"step_s":{}{}{}{}}})",
      n.latency_s, n.overhead_s, n.gap_s, n.copy_s, n.burst_bytes, n.bandwidth_Bps, n.per_node,
      n.node_latency_s, n.node_bandwidth_Bps, n.oversubscription, n.nodes_per_switch,
      json_quote(o.rates_path), json_quote(o.isa), o.step_s,
      o.segments > 0 ? fmt::format(R"(,"segments":{})", o.segments) : "",
      o.calls > 1 ? fmt::format(R"(,"calls":{})", o.calls) : "",
      o.sweep.sparse ? fmt::format(R"(,"list_costs":{})", json_quote(text_of(o.list_costs))) : "");
}

Status take_words(const Words& w, SimulateOptions& o) {
  Options& s = o.sweep;
  if (o.prints_footprints || o.measures_lists) return {};
  for (const Collective each : bench::kMeasured)
    if (w.collective == name(each)) s.collective = each;
  if (s.collective != Collective::allreduce && (w.is_sparse || o.asks_model))
    return {Code::bad_argument, "--sparse and --model: of allreduce only"};
  if (w.is_sparse) {
    s.sparse.emplace();
    s.feedback = false;
    MQ_TRY(w.lists.read(s));
    if (const Status status = parse_times(w.list_costs, o.list_costs); !status.ok())
      return {Code::bad_argument, "--list-costs: " + status.text()};
    if (o.asks_model) return {Code::bad_argument, "--model: not of sparse vectors"};
    if (o.segments > 0 || o.calls > 1)
      return {Code::bad_argument, "--segments and --calls: not of sparse vectors"};
  }
  if (o.asks_model && (o.segments > 0 || o.calls > 1))
    return {Code::bad_argument, "--model: not with --segments and --calls"};
  const bench::MethodsFor use = w.is_sparse ? bench::MethodsFor::lists : bench::MethodsFor::vectors;
  MQ_TRY(take("--ranks", bench::parse_ranks(w.ranks), s.ranks));
  MQ_TRY(take("--sizes", bench::parse_sizes(w.sizes), s.sizes));
  MQ_TRY(take("--dtype", bench::parse_elements(w.dtype), s.elements));
  MQ_TRY(take("--methods", bench::parse_methods(w.methods, use), s.methods));
  const bool has_dense =
      std::any_of(s.methods.begin(), s.methods.end(), [](const auto& m) { return !m.sparse; });
  if (has_dense && o.rates_path.empty()) return {Code::bad_argument, "--rates is required"};
  s.baseline = w.baseline;
  if (w.baseline != bench::kBestDense) {
    std::vector<bench::MethodWord> baseline;
    MQ_TRY(take("--baseline", bench::parse_methods(w.baseline, use), baseline));
    if (baseline.size() != 1) return {Code::bad_argument, "--baseline: one method, not a list"};
    s.baseline = baseline.front().text;
  }
  if (const Status status = parse_link(w.link, o.network); !status.ok())
    return {Code::bad_argument, "--link: " + status.text()};
  if (const Status status = parse_node(w.node, o.network); !status.ok())
    return {Code::bad_argument, "--node: " + status.text()};
  s.resume = w.resume == "on"    ? bench::Resume::on
             : w.resume == "off" ? bench::Resume::off
                                 : bench::Resume::force;
  s.buffers = w.buffers == "warm" ? bench::Buffers::warm : bench::Buffers::rotate;
  // A simulation is exact: one repetition, of calls that all ranks enter at the same time.
  s.sync = bench::Sync::none;
  s.iters = 1;
  s.warmup = 0;
  s.check = s.shuffle = false;
  describe(o, w.link);
  return {};
}

}  // namespace

SimulateCommandLine parse_simulate(int argc, const char* const* argv) {
  SimulateCommandLine line;
  Words words;
  CLI::App app{kWhat + link_presets(), "mpiq-simulate"};
  add_options(app, line.options, words);
  if (!bench::parse(app, argc, argv, line)) return line;
  const bool sums =
      words.collective != name(Collective::allgather) && words.collective != name(Collective::bcast);
  if (!sums && app.count("--feedback") == 0)
    line.options.sweep.feedback = false;  // as in mpiq-bench allgather and bcast
  if (const Status s = take_words(words, line.options); !s.ok()) {
    line.exit_code = bench::kUsage;
    line.err = fmt::format("mpiq-simulate: {}\n", s.text());
    return line;
  }
  line.run = true;
  return line;
}

}  // namespace mq::sim
