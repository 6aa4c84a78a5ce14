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
    "  mpiq-simulate --ranks 2,64,1024 --sizes 1M,16M --methods mpi,onebit --link lab-10gbit \\\n"
    "      --rates results/reference/kernels.json -O simulated.h5\n\nLinks by name:\n";

// A text of the options that this function reads.
Option::Text text(std::string preset, SimulateOptions& o,
                  Status (*read)(const std::string&, SimulateOptions&)) {
  return {std::move(preset), [read, &o](const std::string& word) { return read(word, o); }};
}

template <class T>
Status take(Result<T> value, T& into) {
  if (!value.ok()) return value.status();
  into = std::move(*value);
  return {};
}

bench::MethodsFor methods_for(const SimulateOptions& o) {
  return o.is_sparse ? bench::MethodsFor::lists : bench::MethodsFor::vectors;
}

Status read_collective(const std::string& word, SimulateOptions& o) {
  for (const Collective each : bench::kMeasured)
    if (word == name(each)) o.sweep.collective = each;
  return {};
}
Status read_ranks(const std::string& word, SimulateOptions& o) {
  return take(bench::parse_ranks(word), o.sweep.ranks);
}
Status read_sizes(const std::string& word, SimulateOptions& o) {
  return take(bench::parse_sizes(word), o.sweep.sizes);
}
Status read_dtype(const std::string& word, SimulateOptions& o) {
  return take(bench::parse_elements(word), o.sweep.elements);
}
Status read_methods(const std::string& word, SimulateOptions& o) {
  return take(bench::parse_methods(word, methods_for(o)), o.sweep.methods);
}
Status read_baseline(const std::string& word, SimulateOptions& o) {
  o.sweep.baseline = word;
  if (word == bench::kBestDense) return {};
  std::vector<bench::MethodWord> baseline;
  MQ_TRY(take(bench::parse_methods(word, methods_for(o)), baseline));
  if (baseline.size() != 1) return bad_argument("one method, not a list");
  o.sweep.baseline = baseline.front().text;
  return {};
}
Status read_link(const std::string& word, SimulateOptions& o) {
  o.link = word;
  return parse_link(word, o.network);
}
Status read_node(const std::string& word, SimulateOptions& o) { return parse_node(word, o.network); }
Status read_costs(const std::string& word, SimulateOptions& o) { return parse_times(word, o.list_costs); }
Status read_buffers(const std::string& word, SimulateOptions& o) {
  o.sweep.buffers = word == "warm" ? bench::Buffers::warm : bench::Buffers::rotate;
  return {};
}
Status read_resume(const std::string& word, SimulateOptions& o) {
  o.sweep.resume = word == "on"    ? bench::Resume::on
                   : word == "off" ? bench::Resume::off
                                   : bench::Resume::force;
  return {};
}

void add_points(OptionParser& parser, SimulateOptions& o) {
  parser.group("What is simulated");
  parser.add(
      {"--collective=NAME", text("allreduce", o, read_collective),
       "allreduce; reduce_scatter, where a size counts the vector that a rank gives; allgather, where it counts the vector that a "
       "rank gets; bcast and reduce, whose root is rank 0",
       one_of({"allreduce", "reduce_scatter", "allgather", "bcast", "reduce"})});
  parser.add({"--ranks=N,...", text("2,16,64,256", o, read_ranks), "numbers of ranks, each from 2 on"});
  parser.add(
      {"--sizes=BYTES,...", text("64K,1M,16M", o, read_sizes), "sizes in bytes; K, M, G = 2^10, 2^20, 2^30"});
  parser.add({"-d,--dtype=TYPE,...", text("f32", o, read_dtype), "element types: f32, f64"});
  parser.add({"--methods=METHOD,...", text("mpi,bf16,onebit", o, read_methods),
              "methods to compare, see mpiq-bench --list"});
  parser.add(
      {"--baseline=METHOD", text(std::string(bench::kBestDense), o, read_baseline),
       "method that speed-ups are relative to; best-dense: the fastest of mpi and raw/PLAN at each point"});
  parser.add({bench::kFeedbackFlags, &o.sweep.feedback,
              "keep residuals (error feedback) [on, of allgather and bcast off]"});
  parser.add(
      {"--segments", &o.segments, "segments of a call in flight; 0: as the library chooses", from_to(0, 16)});
  parser.add(
      {"--calls", &o.calls,
       "calls one after the other, with a barrier before each: the last one counts, which finds the bursts of ports as the others "
       "have left them",
       above_zero()});
}

void add_network(OptionParser& parser, SimulateOptions& o) {
  parser.group("Network");
  parser.add(
      {"--link=NAME", text("lab-10gbit", o, read_link),
       "a name, or LATENCY/OVERHEAD/BANDWIDTH[/GAP[/COPY[/BURST]]]: of a path; of the processor for each message at its sender and "
       "at its receiver; of a node's port in each direction; of a port between messages; of the processor that copies a message "
       "into or out of the network, in bytes a second; bytes that a port passes at once"});
  parser.add({"--per-node", &o.network.per_node, "ranks of a node, which share its port", above_zero()});
  parser.add({"--node=LATENCY/BANDWIDTH", text("500ns/8GB", o, read_node),
              "of messages inside a node; all share the bandwidth"});
  parser.add({"--oversubscription", &o.network.oversubscription,
              "of a tree of two levels: the ports of a switch's nodes over its link upwards",
              from_to(1, 1e6)});
  parser.add({"--nodes-per-switch", &o.network.nodes_per_switch, "with --oversubscription", above_zero()});
}

void add_processor(OptionParser& parser, SimulateOptions& o) {
  parser.group("Processor");
  parser.add({"--rates=FILE", &o.rates_path,
              "rates of the codecs, as mpiq-kernels --benchmark_out=FILE wrote them"});
  parser.add({"--isa=NAME", &o.isa, "instruction set of the rates [the best of the processor they are of]"});
  parser.add(
      {"--step=SECONDS", &o.step_s, "seconds of each encode and decode beside its elements", from_to(0, 1)});
  parser.add({"--buffers=rotate|warm", text("rotate", o, read_buffers),
              "rotate: a call finds its vectors in memory; warm: those that fit into a cache are there",
              one_of({"rotate", "warm"})});
}

void add_sparse(OptionParser& parser, SimulateOptions& o) {
  parser.group("Sparse vectors");
  parser.add(
      {"--sparse", &o.is_sparse,
       "reduce sparse vectors, by union, kylix and fused of mpiq-bench sparse; dense methods reduce the whole vector"});
  bench::add_options(parser, bench::kLists, o.sweep);
  parser.add(
      {"--list-costs=ENCODE/DECODE/MERGE", text(text_of(SparseReduction{}.costs), o, read_costs),
       "time of an entry of a list, to write it to a message, to read it from one, and to merge it with other "
       "lists"});
  parser.add({"--measure-lists", &o.measures_lists,
              "nothing but the list costs of this processor, in the form of --list-costs"});
}

void add_output(OptionParser& parser, SimulateOptions& o) {
  parser.group("Output");
  parser.add({"-O,--output=FILE", &o.sweep.output, "result file (HDF5), saved after every point"});
  parser.add(
      {"--resume=on|off|force", text("on", o, read_resume),
       "on: go on with a result file that exists; off: refuse; force: even if it differs in options or commit",
       one_of({"on", "off", "force"})});
  parser.add({"--footprint", &o.prints_footprints,
              "nothing but what a call needs on a rank, at some numbers of ranks: a table"});
  parser.add(
      {"--model", &o.asks_model,
       "simulate nothing: write what the library's model of time says of each point, as a line of JSON. amounts is how many of "
       "each there are on the longest chain of things that wait for each other: latencies, overheads of messages, bytes of a "
       "port, bytes that the processor copies, elements that are encoded, decoded, and moved from or to memory, and steps"});
}

// What the result file stores of the network. The label is part of each row's key.
void describe(SimulateOptions& o) {
  const Network& n = o.network;
  o.sweep.link = "sim:" + o.link;
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

// What options say of each other. It comes before the texts are read, because the options of lists need
// somewhere to go.
Status prepare(SimulateOptions& o) {
  o.sweep.sparse.emplace();
  if (!o.is_sparse) return {};
  if (o.asks_model) return bad_argument("--model: not of sparse vectors");
  if (o.segments > 0 || o.calls > 1) return bad_argument("--segments and --calls: not of sparse vectors");
  o.sweep.feedback = false;
  return {};
}

// The same after they are read.
Status complete(const OptionParser& parser, SimulateOptions& o) {
  Options& s = o.sweep;
  if (!o.is_sparse) s.sparse.reset();
  const bool sums = s.collective != Collective::allgather && s.collective != Collective::bcast;
  if (!sums && !parser.was_given("--feedback")) s.feedback = false;  // as in mpiq-bench allgather and bcast
  if (s.collective != Collective::allreduce && o.is_sparse)
    return bad_argument("--sparse: of allreduce only");
  if (o.asks_model && (o.segments > 0 || o.calls > 1))
    return bad_argument("--model: not with --segments and --calls");
  const bool has_dense =
      std::any_of(s.methods.begin(), s.methods.end(), [](const auto& m) { return !m.sparse; });
  if (has_dense && o.rates_path.empty()) return bad_argument("--rates is required");
  // A simulation is exact: one repetition, of calls that all ranks enter at the same time.
  s.sync = bench::Sync::none;
  s.iters = 1;
  s.warmup = 0;
  s.check = s.shuffle = false;
  describe(o);
  return {};
}

}  // namespace

SimulateCommandLine parse_simulate(int argc, const char* const* argv) {
  SimulateCommandLine line;
  SimulateOptions& o = line.options;
  OptionParser parser("mpiq-simulate", kWhat + link_presets());
  add_points(parser, o);
  add_network(parser, o);
  add_processor(parser, o);
  add_sparse(parser, o);
  add_output(parser, o);
  if (!bench::parse_words(parser, argc, argv, line)) return line;
  const bool no_points = o.prints_footprints || o.measures_lists;
  line.run =
      no_points || (bench::refuse(parser, prepare(o), line) && bench::refuse(parser, parser.read(), line) &&
                    bench::refuse(parser, complete(parser, o), line));
  return line;
}

}  // namespace mq::sim
