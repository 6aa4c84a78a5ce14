#include "bench/options.hpp"

#include <fmt/format.h>

#include <array>
#include <set>

#include "bench/config_file.hpp"
#include "bench/explain.hpp"
#include "bench/link.hpp"
#include "bench/list_output.hpp"
#include "bench/models.hpp"
#include "bench/option_table.hpp"
#include "bench/parse.hpp"
#include "mpi_quant/base/env.hpp"

namespace mq::bench {
namespace {

constexpr std::uint64_t kMostLinkBytes = std::uint64_t{64} << 20;  // 16 of them are in flight each way

Status usage(std::string_view option, const std::string& text) {
  return {Code::bad_argument, fmt::format("{}: {}", option, text)};
}

// Whether a method can make a call of this collective.
Status check_method(const Options& o, const MethodWord& m) {
  if (o.is_link || o.collective == mq::Collective::allreduce) return {};
  if (m.dense == Dense::nccl || !m.algorithm.empty())
    return usage("--methods", fmt::format("{} is for allreduce; here mpi is MPI's own choice", m.text));
  const std::string why = unfit_for(o.collective, m.method);
  return why.empty() ? Status{} : usage("--methods", fmt::format("{}: {}", m.text, why));
}

// A call that does not block has to be started as one.
Status check_overlap(const Options& o) {
  if (o.overlap.empty()) return {};
  if (o.isolated)
    return usage("--overlap", "a call is compared with itself, measured in turns: not with --mode isolated");
  if (o.memory == Place::cuda) return usage("--overlap", "vectors are on the host: not with --memory cuda");
  for (const MethodWord& m : o.methods)
    if (!m.algorithm.empty())
      return usage("--overlap",
                   fmt::format("{}: MPI's algorithms of MPI_Iallreduce have other names", m.text));
  return {};
}

// What calls that do not block cannot be measured with.
Status check_form(const Options& o) {
  if (o.form == Form::blocking)
    return o.window == 1 ? Status{}
                         : usage("--window",
                                 "calls that block are not in flight together: --form nonblocking, or "
                                 "persistent");
  if (!o.overlap.empty()) return usage("--form", "--overlap has calls of its own, which do not block");
  if (o.memory == Place::cuda) return usage("--form", "vectors are on the host: not with --memory cuda");
  if (o.form == Form::persistent && o.buffers != Buffers::warm)
    return usage("--form", "a persistent request has the same vectors in every call: --buffers warm");
  for (const MethodWord& m : o.methods)
    if (!m.algorithm.empty())
      return usage("--form", fmt::format("{}: MPI's algorithms of such calls have other names", m.text));
  if (o.window == 1) return {};
  if (!o.arrivals.empty())
    return usage("--window", "times would not count from the last arrival: not with --arrival");
  if (o.energy_s > 0) return usage("--window", "energy is measured of single calls: not with --energy");
  return {};
}

Status check_arrivals(const Options& o) {
  if (o.arrivals.empty()) return {};
  if (o.sync == Sync::none) return usage("--arrival", "ranks that start back to back are late already");
  if (!o.overlap.empty())
    return usage("--arrival", "calls with computation after their start: not with --overlap");
  if (o.memory == Place::cuda) return usage("--arrival", "vectors are on the host: not with --memory cuda");
  return {};
}

Status check_baseline(const Options& o) {
  if (o.baseline == kBestDense && std::none_of(o.methods.begin(), o.methods.end(), is_dense))
    return usage("--baseline", "best-dense is one of --methods, which has no dense one: add mpi,mpi/*");
  return {};
}

bool is_late(const Options& o) {
  return std::any_of(o.arrivals.begin(), o.arrivals.end(), [](const Arrival& a) { return a != Arrival{}; });
}

Status check_energy(const Options& o) {
  if (o.energy_s > 0 && !o.overlap.empty())
    return usage("--energy", "computation would be in it: not with --overlap");
  if (o.energy_s > 0 && is_late(o))
    return usage("--energy", "waiting for late ranks would be in it: not with --arrival");
  return {};
}

Status check_counters(const Options& o) {
  if (o.counters.empty()) return {};
  if (!o.overlap.empty()) return usage("--counters", "computation would be counted: not with --overlap");
  if (is_late(o)) return usage("--counters", "waiting for late ranks would be counted: not with --arrival");
  if (env().ok() && env()->threads > 1)
    return usage("--counters", "only the thread that calls is counted: not with MPIQ_THREADS");
  return {};
}

// What options say of each other.
Status check_together(const Options& o) {
  if (!o.model.empty() && find_model(o.model) == nullptr)
    return usage("--model", fmt::format("unknown model '{}', see --help", o.model));
  if (o.min_bytes == 0 || o.min_bytes > o.max_bytes)
    return usage("--min-bytes", fmt::format("{} to {} bytes is no range of sizes", o.min_bytes, o.max_bytes));
  for (const MethodWord& m : o.methods) {
    if (m.dense != Dense::host && o.memory == Place::host)
      return usage("--methods", fmt::format("{} is for --memory cuda", m.text));
    MQ_TRY(check_method(o, m));
  }
  if (o.isolated && o.min_speedup > 0) return usage("--min-speedup", "isolated methods have no speed-up");
  if (o.format == Format::csv && (o.graph || o.phases))
    return usage("--format",
                 "csv is for programs: nothing else is printed, so --graph and --phases do not go with it");
  MQ_TRY(check_overlap(o));
  MQ_TRY(check_form(o));
  MQ_TRY(check_arrivals(o));
  MQ_TRY(check_energy(o));
  MQ_TRY(check_counters(o));
  MQ_TRY(check_baseline(o));
  if (o.max_reps < o.min_reps)
    return usage("--max-reps", fmt::format("{} is less than --min-reps {}", o.max_reps, o.min_reps));
  return {};
}

Status take_dense(const OptionParser& parser, Options& o) {
  MQ_TRY(parser.read());
  return check_together(o);
}

Status take_reduce_scatter(const OptionParser& parser, Options& o) {
  o.collective = mq::Collective::reduce_scatter;
  return take_dense(parser, o);
}

// What is gathered are values such as parameters, for which a residual is wrong (mpi_quant.h).
Status take_allgather(const OptionParser& parser, Options& o) {
  o.collective = mq::Collective::allgather;
  if (!parser.was_given("--feedback")) o.feedback = false;
  return take_dense(parser, o);
}

Status take_bcast(const OptionParser& parser, Options& o) {
  o.collective = mq::Collective::bcast;
  o.in_place = true;
  if (!parser.was_given("--feedback")) o.feedback = false;  // as of an allgather
  return take_dense(parser, o);
}

Status take_reduce(const OptionParser& parser, Options& o) {
  o.collective = mq::Collective::reduce;
  return take_dense(parser, o);
}

Status take_sparse(const OptionParser& parser, Options& o) {
  o.sparse.emplace();
  o.feedback = false;
  o.buffers = Buffers::warm;
  return take_dense(parser, o);
}

Status take_link(const OptionParser& parser, Options& o) {
  o.is_link = true;
  o.feedback = false;
  o.methods = link_methods();
  o.baseline = o.methods.front().text;
  MQ_TRY(take_dense(parser, o));
  if (std::set(o.sizes.begin(), o.sizes.end()).size() < 2)
    return usage("--sizes", "two sizes at least: one does not tell latency from bandwidth");
  for (const std::uint64_t size : o.sizes)
    if (size > kMostLinkBytes)
      return usage("--sizes", fmt::format("{} is more than {}", size, kMostLinkBytes));
  return {};
}

struct Subcommand {
  const char* name;
  Command command;
  const char* what;  // for --help
  Status (*take)(const OptionParser& parser, Options& o);
};
constexpr std::array kSubcommands{
    Subcommand{"allreduce", kAllreduce,
               "Sweeps sizes x types x ranks x methods of an allreduce.\n\n"
               "  mpiexec -n 2 mpiq-bench allreduce --sizes 64K,1M,16M --methods mpi,bf16,int8 -O results.h5",
               take_dense},
    Subcommand{
        "reduce_scatter", kReduceScatter,
        "Sweeps sizes x types x ranks x methods of a reduce-scatter: a size counts the whole vector, which each rank gives; a rank gets its part of the sum.\n\n"
        "  mpiexec -n 2 mpiq-bench reduce_scatter --sizes 1M,16M --methods mpi,int8",
        take_reduce_scatter},
    Subcommand{
        "allgather", kAllgather,
        "Sweeps sizes x types x ranks x methods of an allgather: a size counts the whole vector, which each rank gets; a rank gives its part.\n\n"
        "  mpiexec -n 2 mpiq-bench allgather --sizes 1M,16M --methods mpi,bf16",
        take_allgather},
    Subcommand{
        "bcast", kBcast,
        "Sweeps sizes x types x ranks x methods of a broadcast: a size counts the vector, which rank 0 gives and each rank gets.\n\n"
        "  mpiexec -n 2 mpiq-bench bcast --sizes 1M,16M --methods mpi,bf16",
        take_bcast},
    Subcommand{
        "reduce", kReduce,
        "Sweeps sizes x types x ranks x methods of a reduction to rank 0: a size counts the vector, which each rank gives; rank 0 gets the sum.\n\n"
        "  mpiexec -n 2 mpiq-bench reduce --sizes 1M,16M --methods mpi,int8",
        take_reduce},
    Subcommand{
        "sparse", kSparse,
        "Sweeps sizes x densities x distributions x strides x types x ranks x methods of a sparse allreduce.\n\n"
        "  mpiexec -n 4 mpiq-bench sparse --sizes 16M --density 0.001,0.01 --methods mpi,union,kylix",
        take_sparse},
    Subcommand{
        "link", kLink,
        "Measures latency, overhead and bandwidth between pairs of ranks, as mpiq-simulate --link takes them.\n\n"
        "  mpiexec -n 2 mpiq-bench link",
        take_link}};

CommandLine stop(int code, std::string out, std::string err) {
  CommandLine line;
  line.exit_code = code;
  line.out = std::move(out);
  line.err = std::move(err);
  return line;
}

std::string what_to_do() {
  std::string text = "mpiq-bench: what to do? Try";
  for (const Subcommand& each : kSubcommands) text += fmt::format(" 'mpiq-bench {}',", each.name);
  text.back() = ' ';
  return text + "or --help\n";
}

}  // namespace

const char* name(Buffers buffers) {
  return buffers == Buffers::rotate ? "rotate" : buffers == Buffers::warm ? "warm" : "cold";
}

const char* name(Format format) {
  return format == Format::table ? "table" : format == Format::osu ? "osu" : "csv";
}

const char* name(Place place) { return place == Place::host ? "host" : "cuda"; }

CommandLine parse_command_line(int argc, const char* const* argv) {
  if (argc > 1 && std::string_view(argv[1]) == kExplain) return explain_kylix(argc, argv);
  CommandLine line;
  std::array<OptionParser*, kSubcommands.size()> sections{};
  bool list = false, explain = false;
  OptionParser parser(
      "mpiq-bench",
      "Measures collectives of float vectors: plain, compressed and sparse. Start it with its MPI's mpiexec:\n\n"
      "  mpiexec -n 2 mpiq-bench allreduce --sizes 64K,1M,16M --methods mpi,bf16,int8,onebit -O results.h5\n"
      "  mpiexec -n 4 mpiq-bench sparse --sizes 16M --density 0.01");
  add_config(parser);
  parser.add(
      {std::string(kExplain), &explain,
       "as the first argument: print what degrees Kylix would have and what they cost; options by --explain-kylix --help"});
  parser.add({"-l,--list", &list, "print methods: codecs, plans, sparse reductions"});
  for (std::size_t i = 0; i < kSubcommands.size(); ++i) {
    sections[i] = &parser.command(kSubcommands[i].name, kSubcommands[i].what);
    add_options(*sections[i], kSubcommands[i].command, line.options);
  }
  if (!parse_words(parser, argc, argv, line)) return line;
  if (explain) return stop(kUsage, "", fmt::format("mpiq-bench: {} must be the first argument\n", kExplain));
  if (list) return stop(kDone, list_text(), "");
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (sections[i]->was_chosen()) asked.push_back(i);
  if (asked.empty()) return stop(kUsage, "", what_to_do());
  const Subcommand& chosen = kSubcommands[asked[0]];
  if (asked.size() > 1)
    return stop(kUsage, "",
                fmt::format("mpiq-bench: {} or {}? The command line and the file say both\n", chosen.name,
                            kSubcommands[asked[1]].name));
  const OptionParser& section = *sections[asked[0]];
  line.run = refuse(section, chosen.take(section, line.options), line);
  return line;
}

}  // namespace mq::bench
