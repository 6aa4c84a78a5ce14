// long on purpose: the table of all options of mpiq-bench, beside what reads and stores them, so that an
// option is added in one place
#include "bench/option_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>

#include "bench/counters.hpp"
#include "bench/models.hpp"
#include "bench/points.hpp"
#include "mpi_quant/base/json.hpp"

namespace mq::bench {
namespace {

constexpr double kSlurmMargin_s = 60;
constexpr std::uint64_t kMostCache = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostSide = std::uint64_t{1} << 24;  // the bytes of its square fit 64 bits

using Text = OptionRow::Text;
using Flag = OptionRow::Flag;

template <class T>
Status take(Result<T> value, T& into) {
  if (!value.ok()) return value.status();
  into = std::move(*value);
  return {};
}

// Finds one of a few values by its name.
template <class T>
Status take_word(const std::string& word, std::initializer_list<T> values, T& into) {
  std::vector<std::string> names;
  for (const T value : values) {
    names.emplace_back(name(value));
    if (word == names.back()) {
      into = value;
      return {};
    }
  }
  return bad_argument(fmt::format("'{}' is none of {}", word, fmt::join(names, ", ")));
}

// Whether the word is the second of two.
Status take_second(const std::string& word, const char* first, const char* second, bool& into) {
  if (word != first && word != second)
    return bad_argument(fmt::format("'{}' is neither {} nor {}", word, first, second));
  into = word == second;
  return {};
}

template <auto Parse, auto Member>
Status read(const std::string& text, Options& o) {
  return take(Parse(text), o.*Member);
}

MethodsFor methods_for(const Options& o) { return o.sparse ? MethodsFor::lists : MethodsFor::vectors; }

Status read_methods(const std::string& text, Options& o) {
  return take(parse_methods(text, methods_for(o)), o.methods);
}

Status read_baseline(const std::string& text, Options& o) {
  if (text == kBestDense) {
    o.baseline = text;
    return {};
  }
  std::vector<MethodWord> baseline;
  const Status read = take(parse_methods(text, methods_for(o)), baseline);
  if (!read.ok())
    return bad_argument(
        fmt::format("neither {}, the fastest dense method, nor a method: {}", kBestDense, read.text()));
  if (baseline.size() != 1) return bad_argument("one method, not a list");
  o.baseline = baseline.front().text;
  return {};
}

Status read_range(const std::string& text, Options& o) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return bad_argument(fmt::format("'{}' is not MIN:MAX", text));
  MQ_TRY(take(parse_size(text.substr(0, colon)), o.min_bytes));
  return take(parse_size(text.substr(colon + 1)), o.max_bytes);
}

Status read_sides(const std::string& text, Options& o) {
  MQ_TRY(take(parse_sizes(text), o.sides));
  for (const std::uint64_t side : o.sides)
    if (side > kMostSide) return bad_argument(fmt::format("{} is more than {}", side, kMostSide));
  return {};
}

Status read_bucket(const std::string& text, Options& o) {
  if (o.model.empty() && o.layers_file.empty())
    return bad_argument("there are layers only with --model or --layers");
  MQ_TRY(take(parse_size(text), o.bucket_bytes));
  return o.bucket_bytes == 0 ? bad_argument("0 bytes hold no layer") : Status{};
}

Status read_data(const std::string& text, Options& o) {
  DataSpec data;
  MQ_TRY(take(parse_data(text), data));
  data.rho = o.data.rho;
  data.seed = o.data.seed;
  MQ_TRY(check_data(data));
  if (o.sparse && data.distribution == Distribution::file)
    return bad_argument("a file is for dense vectors: it does not say which indices a rank holds");
  o.data = data;
  return {};
}

Status read_buffers(const std::string& text, Options& o) {
  return take_word(text, {Buffers::rotate, Buffers::warm, Buffers::cold}, o.buffers);
}
Status read_cache(const std::string& text, Options& o) {
  MQ_TRY(take(parse_size(text), o.cache_bytes));
  if (o.cache_bytes == 0) return bad_argument("0 bytes are no cache");
  return o.cache_bytes > kMostCache ? bad_argument(fmt::format("'{}' is more than 1T", text)) : Status{};
}
Status read_form(const std::string& text, Options& o) {
  return take_word(text, {Form::blocking, Form::nonblocking, Form::persistent}, o.form);
}
Status read_memory(const std::string& text, Options& o) {
  return take_word(text, {Place::host, Place::cuda}, o.memory);
}
Status read_arrivals(const std::string& text, Options& o) { return take(parse_arrivals(text), o.arrivals); }
Status read_counters(const std::string& text, Options& o) {
  MQ_TRY(take(split_list(text), o.counters));
  std::vector<std::string> sorted = o.counters;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  return twice == sorted.end() ? Status{} : bad_argument(fmt::format("{} is named twice", *twice));
}
Status read_sync(const std::string& text, Options& o) {
  return take_word(text, {Sync::barrier, Sync::round, Sync::none}, o.sync);
}
// The columns of OSU are over ranks, so the time of every rank is needed.
Status read_format(const std::string& text, Options& o) {
  MQ_TRY(take_word(text, {Format::table, Format::osu, Format::csv}, o.format));
  o.keep_ranks = o.keep_ranks || o.format == Format::osu;
  return {};
}
Status read_overlap(const std::string& text, Options& o) {
  constexpr int kMost = 10000;  // percent
  MQ_TRY(take(parse_percents(text), o.overlap));
  if (o.overlap.back() > kMost)
    return bad_argument(fmt::format("{} is more than {} percent", o.overlap.back(), kMost));
  return {};
}
Status read_mode(const std::string& text, Options& o) {
  return take_second(text, "interleaved", "isolated", o.isolated);
}
Status read_check(const std::string& text, Options& o) {
  o.check = text == "1" || text == "true";  // a sweep file may have either
  return o.check || text == "0" || text == "false"
             ? Status{}
             : bad_argument(fmt::format("'{}' is neither 0 nor 1", text));
}

Status read_resume(const std::string& text, Options& o) {
  if (text != "on" && text != "off" && text != "force" && !text.empty())
    return bad_argument(fmt::format("'{}' is none of on, off, force", text));
  o.resume = text == "off" ? Resume::off : text == "force" ? Resume::force : Resume::on;
  return {};
}

Status read_deadline(const std::string& text, Options& o) {
  if (text == "auto") {
    const char* end = std::getenv("SLURM_JOB_END_TIME");
    if (end == nullptr) return {};
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    o.deadline_s = std::atof(end) - std::chrono::duration<double>(now).count() - kSlurmMargin_s;
    return {};
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), o.deadline_s);
  if (error != std::errc() || end != text.data() + text.size() || !(o.deadline_s >= 0))
    return bad_argument(fmt::format("'{}' is neither seconds nor 'auto'", text));
  return {};
}

Status read_supports(const std::string& text, Options& o) {
  std::vector<std::string> words;
  MQ_TRY(take(split_list(text), words));
  o.sparse->supports.clear();
  for (const std::string& word : words) MQ_TRY(take(parse_support(word), o.sparse->supports.emplace_back()));
  return {};
}
Status read_densities(const std::string& text, Options& o) {
  return take(parse_densities(text), o.sparse->densities);
}
Status read_strides(const std::string& text, Options& o) {
  return take(parse_sizes(text), o.sparse->strides);
}
Status read_in(const std::string& text, Options& o) {
  return take_second(text, "own", "union", o.sparse->want_union);
}
Status read_lists(const std::string& text, Options& o) {
  return take_second(text, "same", "new", o.sparse->fresh);
}

std::string quoted(const std::vector<MethodWord>& methods) {
  std::vector<std::string> words;
  for (const MethodWord& m : methods) words.push_back(json_quote(m.text));
  return fmt::format("[{}]", fmt::join(words, ","));
}

std::string range_json(const Options& o) {
  const bool range = o.sizes.empty() && o.sides.empty() && o.model.empty() && o.layers_file.empty();
  return range ? fmt::format("[{},{},{}]", o.min_bytes, o.max_bytes, o.step_factor) : "null";
}

std::string arrivals_json(const Options& o) {
  std::vector<std::string> words;
  for (const Arrival& arrival : o.arrivals) words.push_back(json_quote(to_string(arrival)));
  return fmt::format("[{}]", fmt::join(words, ","));
}

std::string counters_json(const Options& o) {
  std::vector<std::string> words;
  for (const std::string& event : o.counters) words.push_back(json_quote(event));
  return fmt::format("[{}]", fmt::join(words, ","));
}

std::string elements_json(const Options& o) {
  std::vector<std::string> words;
  for (const kernels::Element e : o.elements) words.push_back(json_quote(name(e)));
  return fmt::format("[{}]", fmt::join(words, ","));
}

// The layers of --layers as their number and a hash, because their list may be long.
std::string layers_json(const Options& o) {
  if (o.layers.empty()) return "null";
  std::string all;
  for (const Layer& layer : o.layers) all += fmt::format("{},{}\n", layer.name, layer.count);
  return fmt::format(R"({{"hash":"{}","number":{}}})", hash128(all), o.layers.size());
}

std::string sparse_json(const Options& o) {
  if (!o.sparse) return "";
  std::vector<std::string> supports;
  for (const SupportSpec& spec : o.sparse->supports) supports.push_back(json_quote(to_string(spec)));
  return fmt::format(R"({{"density":[{}],"distribution":[{}],"in":"{}","lists":"{}","stride":[{}]}})",
                     fmt::join(o.sparse->densities, ","), fmt::join(supports, ","),
                     o.sparse->want_union ? "union" : "own", o.sparse->fresh ? "new" : "same",
                     fmt::join(o.sparse->strides, ","));
}

std::string model_names() {
  std::vector<std::string> names;
  for (const Model& m : models()) names.emplace_back(m.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

#define MQ_AT(member) \
  [](Options & o) -> auto& { return o.member; }
#define MQ_JSON(value) [](const Options& o) -> std::string { return value; }

// The rows after this one are listed under this title in the help.
OptionRow heading(const char* title) {
  return {.commands = 0, .flags = "", .value = Flag{nullptr}, .key = "", .help = title};
}

// long on purpose, as a table: one row for each option
std::vector<OptionRow> make_table() {
  const auto json_methods = MQ_JSON(quoted(o.methods));
  const auto json_baseline = MQ_JSON(json_quote(o.baseline));
  const auto json_data = MQ_JSON(json_quote(to_string(o.data)));
  const auto json_sizes = MQ_JSON(fmt::format("[{}]", fmt::join(o.sizes, ",")));
  return {
      heading("Vectors"),
      {kVectors, "-b,--min-bytes", Text{"", read<parse_size, &Options::min_bytes>}, "range",
       "smallest vector; K, M, G = 2^10, 2^20, 2^30 [64K]", range_json},
      {kVectors, "-e,--max-bytes", Text{"", read<parse_size, &Options::max_bytes>}, "range",
       "largest vector [64M]", range_json},
      {kVectors, "-f,--step-factor", MQ_AT(step_factor), "range", "from one size to the next", range_json,
       from_to(2, 0x1p40)},
      {kVectors,
       "-m,--message-size=MIN:MAX",
       Text{"", read_range},
       "range",
       "the same as -b MIN -e MAX",
       range_json,
       {},
       false,
       {"--min-bytes", "--max-bytes"}},
      {kVectors, "--sizes=BYTES,...", Text{"", read<parse_sizes, &Options::sizes>}, "sizes",
       "exact sizes in bytes, in place of the range", json_sizes},
      {kLink, "--sizes=BYTES,...", Text{"64,1K,8K,64K,256K,1M", read<parse_sizes, &Options::sizes>}, "sizes",
       "bytes of a message; K, M = 2^10, 2^20", json_sizes},
      {kVectors, "-d,--dtype=TYPE,...", Text{"f32", read<parse_elements, &Options::elements>}, "dtype",
       "element types: f32, f64; of dense vectors also f16, bf16 (without mpi)", elements_json},
      heading("What is compared"),
      {kAll, "--ranks=N,...", Text{"", read<parse_ranks, &Options::ranks>}, "ranks",
       "numbers of ranks (of link: each even); the others of the launch sleep [all]",
       MQ_JSON(fmt::format("[{}]", fmt::join(o.ranks, ",")))},
      {kAllreduce, "--methods=METHOD,...", Text{"mpi,bf16,onebit", read_methods}, "methods",
       "methods to compare, see --list", json_methods},
      {kParted, "--methods=METHOD,...", Text{"mpi,bf16,int8", read_methods}, "methods",
       "methods to compare, codecs without a plan, see --list", json_methods},
      {kSparse, "--methods=METHOD,...", Text{"mpi,densify,union,kylix", read_methods}, "methods",
       "methods to compare, see --list", json_methods},
      {kVectors, "--baseline=METHOD", Text{"mpi", read_baseline}, "baseline",
       "method that speed-ups are relative to; best-dense: at each point the fastest of mpi, mpi/*, raw among the methods",
       json_baseline},
      heading("Repetitions and samples"),
      {kAll, "--seed", MQ_AT(data.seed), "seed", "of inputs and of all orders"},
      heading("Output, and how a launch ends"),
      {kAll, "--link=LABEL", MQ_AT(link), "link", "label of the network, stored with the results"},
      {kAll, "--launch-index", MQ_AT(launch), "launch", "number of this launch among repeated ones", nullptr,
       at_least_zero()},
      heading("Vectors"),
      {kAllreduce,
       "--matrix=N,...",
       Text{"", read_sides},
       "matrix",
       "sides of square matrices, in place of the range; {side} in a method stands for the side",
       MQ_JSON(fmt::format("[{}]", fmt::join(o.sides, ","))),
       {},
       false,
       {"--sizes"}},
      {kDense,
       "--model=NAME",
       MQ_AT(model),
       "model",
       "layer sizes of a model, in place of the range: " + model_names(),
       nullptr,
       {},
       false,
       {"--sizes", "--matrix"}},
      {kDense,
       "--layers=FILE",
       MQ_AT(layers_file),
       "layers",
       "layer sizes from a CSV file, lines NAME,COUNT, in place of the range",
       layers_json,
       {},
       false,
       {"--sizes", "--matrix", "--model"}},
      {kDense, "--bucket-bytes", Text{"", read_bucket}, "bucket_bytes",
       "fuse neighbouring layers up to so many bytes, the last layers first [each layer alone]",
       MQ_JSON(std::to_string(o.bucket_bytes))},
      heading("Calls"),
      {kAllreduce | kReduceScatter | kReduce, kFeedbackFlags, Flag{MQ_AT(feedback)}, "feedback",
       "keep residuals between calls (error feedback) [on]"},
      {kAllgather | kBcast, kFeedbackFlags, Flag{MQ_AT(feedback)}, "feedback",
       "keep residuals between calls: right only if the results of calls are added up [off]"},
      heading("Vectors"),
      {kDense, "--rho", MQ_AT(data.rho), "rho", "correlation of the ranks' inputs"},
      {kDense, "--data=KIND", Text{"normal", read_data}, "data",
       "input: " + distribution_names() + ", file:PATH, see bench/README.md", json_data},
      {kSparse, "--data=KIND", Text{"normal", read_data}, "data", "values: " + distribution_names(),
       json_data},
      {kDense, "--in-place", Flag{MQ_AT(in_place)}, "in_place",
       "send from the receive buffer; a broadcast always does"},
      {kDense, "--buffers=rotate|warm|cold", Text{"rotate", read_buffers}, "buffers",
       "rotate: march through a pool larger than the caches; warm: always the same; cold: rotate, and empty the caches before every call",
       MQ_JSON(json_quote(name(o.buffers)))},
      {kDense,
       "--cache=BYTES",
       Text{"", read_cache},
       "cache",
       "size of the last cache of a rank, which its buffers in host memory exceed twice if they rotate; for machines that report another one, as virtual ones do [what the system says]",
       MQ_JSON(fmt::format("{}", o.cache_bytes)),
       {},
       true,
       {},
       "MPIQ_CACHE"},
      {kSparse | kLists, "--density=X,...", Text{"0.01", read_densities}, "sparse",
       "fractions of the indices that a rank holds, in (0, 1]", sparse_json},
      {kSparse | kLists, "--distribution=KIND,...", Text{"uniform", read_supports}, "sparse",
       "which indices: " + support_names(), sparse_json},
      {kSparse | kLists, "--stride=N,...", Text{"1", read_strides}, "sparse",
       "elements at each index; sizes count them all", sparse_json},
      {kSparse | kLists, "--in=own|union", Text{"own", read_in}, "sparse",
       "what kylix and fused ask for: own, the rank's own indices; union, all that any rank holds, which is what the other methods give",
       sparse_json},
      {kSparse | kLists, "--lists=same|new", Text{"same", read_lists}, "sparse",
       "same: every call has the same indices; new: two lists in turn, so that kylix is configured in every call and fused recognises none",
       sparse_json},
      {kDense,
       "--memory=host|cuda",
       Text{"host", read_memory},
       "memory",
       "where vectors are: host; cuda: GPU number (local rank modulo GPUs) of those visible. There 'mpi' copies to pinned host memory and "
       "back, in the measured time",
       MQ_JSON(json_quote(name(o.memory))),
       {},
       true},
      heading("Output, and how a launch ends"),
      {kDense, "--phases", Flag{MQ_AT(phases)}, "", "print where the time of compressed methods went, too"},
      {kVectors, "--format=table|osu|csv", Text{"table", read_format}, "",
       "what to print: table; osu: at the end, as osu_allreduce -f (sets --keep-ranks); csv: every column of the result file, and the input"},
      {kVectors, "-G,--graph", Flag{MQ_AT(graph)}, "", "draw times over sizes in the terminal, at the end"},
      heading("Calls"),
      {kAll, "--sync=barrier|round|none", Text{"barrier", read_sync}, "sync",
       "how ranks start: barrier; round: at a time agreed on, repetitions with a late rank are left out; none: back to back",
       MQ_JSON(json_quote(name(o.sync)))},
      {kVectors,
       "--arrival=PATTERN,...",
       Text{"", read_arrivals},
       "arrival",
       "how late ranks enter a call: together, uniform:US, exponential:US, one:US, ramp:US; times count from the last arrival, see "
       "bench/README.md [together]",
       arrivals_json,
       {},
       true},
      {kAll, "--mode=interleaved|isolated", Text{"interleaved", read_mode}, "mode",
       "interleaved: methods of a point in turn, with paired speed-ups; isolated: one after the other",
       MQ_JSON(json_quote(o.isolated ? "isolated" : "interleaved"))},
      {kAllreduce,
       "--overlap=PERCENT,...",
       Text{"", read_overlap},
       "overlap",
       "calls that do not block, with computation between start and end: its lengths in percent of the baseline's time without any, such as "
       "50,100,200",
       MQ_JSON(fmt::format("[{}]", fmt::join(o.overlap, ","))),
       {},
       true},
      {kAllreduce, "--test-interval=US", MQ_AT(test_interval_us), "test_interval_us",
       "with --overlap: microseconds of computation between two tests of the request; 0: no tests", nullptr,
       from_to(0, 1 << 30), true},
      {kDense,
       "--form=blocking|nonblocking|persistent",
       Text{"blocking", read_form},
       "form",
       "blocking; nonblocking: calls are started, then completed; persistent: requests that are prepared once, with --buffers warm",
       MQ_JSON(json_quote(name(o.form))),
       {},
       true},
      {kDense, "--window", MQ_AT(window), "window",
       "calls that are started before the first of them is completed, with --form nonblocking or persistent; times are for one call",
       nullptr, from_to(1, 64), true},
      heading("Repetitions and samples"),
      {kVectors, "--energy=SECONDS", MQ_AT(energy_s), "energy_s",
       "seconds of calls of each method by which its energy is measured, where the machine counts it; see bench/README.md [0: not]",
       nullptr, from_to(0.0, 3600.0), true},
      {kVectors,
       "--counters=EVENT,...",
       Text{"", read_counters},
       "counters",
       "events of the processor that are counted in calls, and in their codec steps: PAPI's names, see bench/README.md [none]" +
           std::string(knows_papi() ? "" : "; not in this build, which has no PAPI"),
       counters_json,
       {},
       true},
      {kAll, "--keep-ranks", Flag{MQ_AT(keep_ranks)}, "keep_ranks",
       "store the time of every rank in every repetition"},
      {kAll, "-n,--iters", MQ_AT(iters), "iters",
       "repetitions of every method; without it, until the interval is narrow enough", nullptr, above_zero()},
      {kAll, "-w,-x,--warmup", MQ_AT(warmup), "warmup", "at least so many calls before", nullptr,
       at_least_zero()},
      {kAll, "--rel-ci", MQ_AT(rel_ci), "rel_ci",
       "stop when half of the 95 % interval is this fraction of the median", nullptr, above_zero()},
      {kAll, "--min-reps", MQ_AT(min_reps), "min_reps", "fewest repetitions", nullptr, from_to(6, 1 << 24)},
      {kAll, "--max-reps", MQ_AT(max_reps), "max_reps", "most repetitions", nullptr, from_to(6, 1 << 24)},
      {kAll, "--point-time=SECONDS", MQ_AT(point_time_s), "point_time_s",
       "seconds for each method of a point, once min-reps are done", nullptr, above_zero()},
      {kAll, "-c,--check=0|1", Text{"1", read_check}, "check",
       "whether every result is checked: 0, no; 1, yes", MQ_JSON(o.check ? "true" : "false")},
      {kAll, "--shuffle,!--no-shuffle", Flag{MQ_AT(shuffle)}, "shuffle",
       "run points in random order, against drift [on]"},
      heading("Output, and how a launch ends"),
      {kAll, "-O,-J,--output=FILE", MQ_AT(output), "", "result file (HDF5), saved after every point"},
      {kAll, "--resume=on|off|force", Text{"on", read_resume}, "",
       "on: go on with a result file that exists; off: refuse; force: even if it differs in options, commit or MPI library, and take over its "
       "lock"},
      {kAll, "--deadline=SECONDS|auto", Text{"", read_deadline}, "",
       "stop starting points after so many seconds, exit 75; auto: Slurm's end less 60 s"},
      {kAll, "--min-speedup", MQ_AT(min_speedup), "",
       "exit 1 if the lower end of a method's speed-up interval is below", nullptr, above_zero()},
      {kAll, "--expect-ranks", MQ_AT(expect_ranks), "",
       "fail unless the launch has so many: 'srun --mpi=none' starts singletons", nullptr, above_zero()},
      {kAll, "--dry-run", Flag{MQ_AT(dry_run)}, "", "print points, memory and time, run nothing"},
  };
}

#undef MQ_AT
#undef MQ_JSON

// What the option of a row sets.
Option::Target target_of(const OptionRow& row, Options& o) {
  return std::visit(
      [&](const auto& value) -> Option::Target {
        using V = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<V, Text>)
          return Option::Text{value.preset,
                              [read = value.read, &o](const std::string& text) { return read(text, o); }};
        else if constexpr (std::is_same_v<V, Flag>)
          return &value.at(o);
        else
          return &value(o);
      },
      row.value);
}

std::string json_of(const OptionRow& row, const Options& options) {
  if (row.json != nullptr) return row.json(options);
  Options o = options;
  return std::visit(
      [&](const auto& value) -> std::string {
        using V = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<V, Text>)
          return "";
        else if constexpr (std::is_same_v<V, Flag>)
          return value.at(o) ? "true" : "false";
        else if constexpr (std::is_same_v<V, OptionRow::At<std::string>>)
          return json_quote(value(o));
        else
          return fmt::format("{}", value(o));
      },
      row.value);
}

}  // namespace

std::span<const OptionRow> option_table() {
  static const std::vector<OptionRow> table = [] {
    std::vector<OptionRow> rows;
    std::string group;
    for (OptionRow& row : make_table()) {
      if (row.commands == 0) {
        group = row.help;
      } else {
        row.group = group;
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }();
  return table;
}

std::string config_json(const Options& o) {
  const Options preset;
  std::map<std::string, std::string> members;
  if (!o.simulation.empty()) members["simulation"] = o.simulation;
  // Files of an allreduce do not mention it, so that those from before there were others can be continued.
  if (o.collective != preset.collective) members["collective"] = json_quote(std::string(name(o.collective)));
  for (const OptionRow& row : option_table()) {
    const std::string json = *row.key == '\0' ? "" : json_of(row, o);
    if (!json.empty() && !(row.later && json == json_of(row, preset))) members[row.key] = json;
  }
  std::string text;
  for (const auto& [key, json] : members)
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", key, json);
  return "{" + text + "}";
}

void add_options(OptionParser& parser, Command command, Options& o) {
  for (const OptionRow& row : option_table()) {
    if ((row.commands & command) == 0) continue;
    Option option{.flags = row.flags,
                  .value = target_of(row, o),
                  .help = row.help,
                  .check = row.check,
                  .excludes = row.excludes,
                  .environment = row.environment,
                  .word_may_miss = row.flags.starts_with("--resume=")};
    if (command == kLists) option.needs = {"--sparse"};
    if (command != kLists) parser.group(row.group);
    parser.add(std::move(option));
  }
}

}  // namespace mq::bench
