#include "bench/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include "bench/config_file.hpp"
#include "bench/explain.hpp"
#include "bench/link.hpp"
#include "bench/list_output.hpp"
#include "bench/models.hpp"
#include "bench/parse.hpp"
#include "bench/sparse_options.hpp"

namespace mq::bench {
namespace {

constexpr double kSlurmMargin_s = 60;
constexpr std::uint64_t kMostLinkBytes = std::uint64_t{64} << 20;  // 16 of them are in flight each way
constexpr std::uint64_t kMostSide = std::uint64_t{1} << 24;        // the bytes of its square fit 64 bits

// The options that CLI11 leaves as text, because their grammar is our own.
struct Words {
  std::string min_bytes, max_bytes, range, sizes, matrix,
      dtype = "f32", ranks, methods = "mpi,bf16,onebit", baseline = "mpi", data = "normal",
      buffers = "rotate", memory = "host", resume = "on", deadline, sync = "barrier", mode = "interleaved",
      bucket;
  SparseWords lists;
};

// Returns the option for a list of sizes.
CLI::Option* add_sweep_options(CLI::App& app, Options& o, Words& w) {
  app.add_option("-b,--min-bytes", w.min_bytes, "smallest vector; K, M, G = 2^10, 2^20, 2^30 [64K]");
  app.add_option("-e,--max-bytes", w.max_bytes, "largest vector [64M]");
  app.add_option("-f,--step-factor", o.step_factor, "from one size to the next")
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("-m,--message-size", w.range, "MIN:MAX, the same as -b MIN -e MAX");
  auto* sizes = app.add_option("--sizes", w.sizes, "exact sizes in bytes, in place of the range");
  app.add_option("-d,--dtype", w.dtype,
                 "element types: f32, f64; of dense vectors also f16, bf16 (without mpi)")
      ->capture_default_str();
  app.add_option("--ranks", w.ranks, "numbers of ranks; the others of the launch sleep [all]");
  app.add_option("--methods", w.methods, "methods to compare, see --list")->capture_default_str();
  app.add_option("--baseline", w.baseline, "method that speed-ups are relative to")->capture_default_str();
  app.add_option("--seed", o.data.seed, "of inputs and of all orders")->capture_default_str();
  app.add_option("--link", o.link, "label of the network, stored with the results");
  app.add_option("--launch-index", o.launch, "number of this launch among repeated ones")
      ->check(CLI::NonNegativeNumber);
  return sizes;
}

void add_dense_options(CLI::App& app, CLI::Option* sizes, Options& o, Words& w) {
  auto* matrix =
      app.add_option(
             "--matrix", w.matrix,
             "sides of square matrices, in place of the range; {side} in a method stands for the side")
          ->excludes(sizes);
  std::vector<std::string> names;
  for (const Model& m : models()) names.emplace_back(m.name);
  app.add_option("--model", o.model,
                 fmt::format("layer sizes of a model, in place of the range: {}", fmt::join(names, ", ")))
      ->excludes(sizes)
      ->excludes(matrix);
  app.add_option("--layers", o.layers_file, "layer sizes from a CSV file, lines NAME,COUNT; likewise")
      ->excludes(sizes)
      ->excludes(matrix)
      ->excludes("--model");
  app.add_option("--bucket-bytes", w.bucket,
                 "fuse neighbouring layers up to so many bytes, the last layers first [each layer alone]");
  app.add_flag("--feedback,!--no-feedback", o.feedback, "keep residuals between calls (error feedback) [on]");
  app.add_option("--data", w.data, "input: " + distribution_names() + ", file:PATH, see bench/README.md")
      ->capture_default_str();
  app.add_option("--rho", o.data.rho, "correlation of the ranks' inputs")->capture_default_str();
  app.add_flag("--in-place", o.in_place, "send from the receive buffer");
  app.add_option(
         "--buffers", w.buffers,
         "rotate: march through a pool larger than the caches; warm: always the same; cold: rotate, and "
         "empty the caches before every call")
      ->capture_default_str();
}

void add_memory_options(CLI::App& app, Options& o, Words& w) {
  app.add_option("--memory", w.memory,
                 "where vectors are: host; cuda: GPU number (local rank modulo GPUs) of those visible. There "
                 "'mpi' copies to pinned host memory and back, in the measured time")
      ->capture_default_str();
  app.add_flag("--phases", o.phases, "print where the time of compressed methods went, too");
}

void add_link_options(CLI::App& app, Options& o, Words& w) {
  app.add_option("--sizes", w.sizes, "bytes of a message; K, M = 2^10, 2^20")->capture_default_str();
  app.add_option("--ranks", w.ranks, "numbers of ranks, each even; the others of the launch sleep [all]");
  app.add_option("--seed", o.data.seed, "of all orders")->capture_default_str();
  app.add_option("--link", o.link, "label of the network, stored with the results");
  app.add_option("--launch-index", o.launch, "number of this launch among repeated ones")
      ->check(CLI::NonNegativeNumber);
}

// Options for how a repetition is made. This is part of what its time means.
void add_method_options(CLI::App& app, Options& o, Words& w) {
  app.add_option(
         "--sync", w.sync,
         "how ranks start: barrier; round: at a time agreed on, repetitions with a late rank are left "
         "out; none: back to back")
      ->capture_default_str();
  app.add_option(
         "--mode", w.mode,
         "interleaved: methods of a point in turn, with paired speed-ups; isolated: one after the other")
      ->capture_default_str();
  app.add_flag("--keep-ranks", o.keep_ranks, "store the time of every rank in every repetition");
}

void add_run_options(CLI::App& app, Options& o, Words& w) {
  app.add_option("-n,--iters", o.iters,
                 "repetitions of every method; without it, until the interval is narrow enough")
      ->check(CLI::PositiveNumber);
  app.add_option("-w,-x,--warmup", o.warmup, "at least so many calls before")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rel-ci", o.rel_ci, "stop when half of the 95 % interval is this fraction of the median")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--min-reps", o.min_reps, "fewest repetitions")
      ->check(CLI::Range(6, 1 << 24))
      ->capture_default_str();
  app.add_option("--max-reps", o.max_reps, "most repetitions")
      ->check(CLI::Range(6, 1 << 24))
      ->capture_default_str();
  app.add_option("--point-time", o.point_time_s, "seconds for each method of a point, once min-reps are done")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-c,--check", o.check, "check every result: 0 or 1")->capture_default_str();
  app.add_flag("--shuffle,!--no-shuffle", o.shuffle, "run points in random order, against drift [on]");
  app.add_option("-O,-J,--output", o.output, "result file (HDF5), saved after every point");
  app.add_option("--resume", w.resume,
                 "on: go on with a result file that exists; off: refuse; force: even if it differs in "
                 "options, commit or MPI library, and take over its lock")
      ->expected(0, 1)
      ->capture_default_str();
  app.add_option("--deadline", w.deadline,
                 "stop starting points after so many seconds, exit 75; auto: Slurm's end less 60 s");
  app.add_option("--min-speedup", o.min_speedup,
                 "exit 1 if the lower end of a method's speed-up interval is below")
      ->check(CLI::PositiveNumber);
  app.add_option("--expect-ranks", o.expect_ranks,
                 "fail unless the launch has so many: 'srun --mpi=none' starts singletons")
      ->check(CLI::PositiveNumber);
  app.add_flag("--dry-run", o.dry_run, "print points, memory and time, run nothing");
}

Status usage(std::string_view option, const std::string& text) {
  return {Code::bad_argument, fmt::format("{}: {}", option, text)};
}

template <class T>
Status take(std::string_view option, Result<T> value, T& into) {
  if (!value.ok()) return usage(option, value.status().text());
  into = std::move(*value);
  return {};
}

// Finds one of a few values by its name.
template <class T>
Status take_word(std::string_view option, const std::string& word, std::initializer_list<T> values, T& into) {
  std::vector<std::string> names;
  for (const T value : values) {
    names.emplace_back(name(value));
    if (word == names.back()) {
      into = value;
      return {};
    }
  }
  return usage(option, fmt::format("'{}' is none of {}", word, fmt::join(names, ", ")));
}

Status take_sizes(const Words& w, Options& o) {
  if (!w.range.empty()) {
    const std::size_t colon = w.range.find(':');
    if (colon == std::string::npos)
      return usage("--message-size", fmt::format("'{}' is not MIN:MAX", w.range));
    if (!w.min_bytes.empty() || !w.max_bytes.empty())
      return usage("--message-size", "not together with -b or -e");
    MQ_TRY(take("--message-size", parse_size(w.range.substr(0, colon)), o.min_bytes));
    MQ_TRY(take("--message-size", parse_size(w.range.substr(colon + 1)), o.max_bytes));
  }
  if (!w.min_bytes.empty()) MQ_TRY(take("--min-bytes", parse_size(w.min_bytes), o.min_bytes));
  if (!w.max_bytes.empty()) MQ_TRY(take("--max-bytes", parse_size(w.max_bytes), o.max_bytes));
  if (!w.sizes.empty()) MQ_TRY(take("--sizes", parse_sizes(w.sizes), o.sizes));
  if (!w.matrix.empty()) MQ_TRY(take("--matrix", parse_sizes(w.matrix), o.sides));
  for (const std::uint64_t side : o.sides)
    if (side > kMostSide) return usage("--matrix", fmt::format("{} is more than {}", side, kMostSide));
  if (!o.model.empty() && find_model(o.model) == nullptr)
    return usage("--model", fmt::format("unknown model '{}', see --help", o.model));
  if (w.bucket.empty()) {
    o.bucket_bytes = 0;
  } else {
    if (o.model.empty() && o.layers_file.empty())
      return usage("--bucket-bytes", "there are layers only with --model or --layers");
    MQ_TRY(take("--bucket-bytes", parse_size(w.bucket), o.bucket_bytes));
    if (o.bucket_bytes == 0) return usage("--bucket-bytes", "0 bytes hold no layer");
  }
  if (o.min_bytes == 0 || o.min_bytes > o.max_bytes)
    return usage("--min-bytes", fmt::format("{} to {} bytes is no range of sizes", o.min_bytes, o.max_bytes));
  return {};
}

Status take_deadline(const std::string& word, Options& o) {
  if (word.empty()) return {};
  if (word == "auto") {
    const char* end = std::getenv("SLURM_JOB_END_TIME");
    if (end == nullptr) return {};
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    o.deadline_s = std::atof(end) - std::chrono::duration<double>(now).count() - kSlurmMargin_s;
    return {};
  }
  if (!CLI::detail::lexical_cast(word, o.deadline_s) || !(o.deadline_s >= 0))
    return usage("--deadline", fmt::format("'{}' is neither seconds nor 'auto'", word));
  return {};
}

Status take_words(const Words& w, Options& o) {
  if (o.sparse) MQ_TRY(take_sparse(w.lists, *o.sparse));
  MQ_TRY(take_sizes(w, o));
  MQ_TRY(take("--dtype", parse_elements(w.dtype), o.elements));
  if (!w.ranks.empty()) MQ_TRY(take("--ranks", parse_ranks(w.ranks), o.ranks));
  const bool sparse = o.sparse.has_value();
  const MethodsFor use = sparse ? MethodsFor::lists : MethodsFor::vectors;
  MQ_TRY(take("--methods", parse_methods(w.methods, use), o.methods));
  std::vector<MethodWord> baseline;
  MQ_TRY(take("--baseline", parse_methods(w.baseline, use), baseline));
  if (baseline.size() != 1) return usage("--baseline", "one method, not a list");
  o.baseline = baseline.front().text;
  DataSpec data;
  MQ_TRY(take("--data", parse_data(w.data), data));
  data.rho = o.data.rho;
  data.seed = o.data.seed;
  if (const Status s = check_data(data); !s.ok()) return usage("--data", s.text());
  o.data = data;
  if (sparse && data.distribution == Distribution::file)
    return usage("--data", "a file is for dense vectors: it does not say which indices a rank holds");
  MQ_TRY(take_word("--buffers", w.buffers, {Buffers::rotate, Buffers::warm, Buffers::cold}, o.buffers));
  MQ_TRY(take_word("--sync", w.sync, {Sync::barrier, Sync::round, Sync::none}, o.sync));
  MQ_TRY(take_word("--memory", w.memory, {Place::host, Place::cuda}, o.memory));
  for (const MethodWord& m : o.methods)
    if (m.dense != Dense::host && o.memory == Place::host)
      return usage("--methods", fmt::format("{} is for --memory cuda", m.text));
  if (w.mode != "interleaved" && w.mode != "isolated")
    return usage("--mode", fmt::format("'{}' is neither interleaved nor isolated", w.mode));
  o.isolated = w.mode == "isolated";
  if (o.isolated && o.min_speedup > 0) return usage("--min-speedup", "isolated methods have no speed-up");
  if (w.resume == "on" || w.resume.empty())
    o.resume = Resume::on;
  else if (w.resume == "off" || w.resume == "force")
    o.resume = w.resume == "off" ? Resume::off : Resume::force;
  else
    return usage("--resume", fmt::format("'{}' is none of on, off, force", w.resume));
  if (o.max_reps < o.min_reps)
    return usage("--max-reps", fmt::format("{} is less than --min-reps {}", o.max_reps, o.min_reps));
  return take_deadline(w.deadline, o);
}

Status take_sparse_words(const Words& w, Options& o) {
  o.sparse.emplace();
  o.feedback = false;
  return take_words(w, o);
}

Status take_link_words(const Words& w, Options& o) {
  MQ_TRY(take_words(w, o));
  o.is_link = true;
  o.feedback = false;
  o.methods = link_methods();
  o.baseline = o.methods.front().text;
  if (std::set(o.sizes.begin(), o.sizes.end()).size() < 2)
    return usage("--sizes", "two sizes at least: one does not tell latency from bandwidth");
  for (const std::uint64_t size : o.sizes)
    if (size > kMostLinkBytes)
      return usage("--sizes", fmt::format("{} is more than {}", size, kMostLinkBytes));
  return {};
}

CommandLine stop(int code, std::string out, std::string err) {
  CommandLine line;
  line.exit_code = code;
  line.out = std::move(out);
  line.err = std::move(err);
  return line;
}

}  // namespace

const char* name(Buffers buffers) {
  return buffers == Buffers::rotate ? "rotate" : buffers == Buffers::warm ? "warm" : "cold";
}

const char* name(Place place) { return place == Place::host ? "host" : "cuda"; }

CommandLine parse_command_line(int argc, const char* const* argv) {
  if (argc > 1 && std::string_view(argv[1]) == kExplain) return explain_kylix(argc, argv);
  CommandLine line;
  Words dense_words, sparse_words, link_words;
  link_words.sizes = "64,1K,8K,64K,256K,1M";
  link_words.methods = "mpi";
  sparse_words.methods = "mpi,densify,union,kylix";
  sparse_words.buffers = "warm";
  bool list = false, explain = false;
  CLI::App app{"Measures allreduce of float vectors: plain, compressed and sparse.", "mpiq-bench"};
  add_config(app);
  app.add_flag(std::string(kExplain), explain,
               "as the first argument: print what degrees Kylix would have and what they cost; "
               "options by --explain-kylix --help");
  app.add_flag("-l,--list", list, "print methods: codecs, plans, sparse reductions");
  CLI::App* allreduce =
      app.add_subcommand("allreduce", "sweep sizes x types x ranks x methods; start it with mpiexec");
  add_dense_options(*allreduce, add_sweep_options(*allreduce, line.options, dense_words), line.options,
                    dense_words);
  add_memory_options(*allreduce, line.options, dense_words);
  add_method_options(*allreduce, line.options, dense_words);
  add_run_options(*allreduce, line.options, dense_words);
  CLI::App* sparse = app.add_subcommand(
      "sparse", "sweep sizes x densities x distributions x strides x types x ranks x methods; likewise");
  (void)add_sweep_options(*sparse, line.options, sparse_words);
  add_sparse_options(*sparse, sparse_words.lists);
  sparse->add_option("--data", sparse_words.data, "values: " + distribution_names())->capture_default_str();
  add_method_options(*sparse, line.options, sparse_words);
  add_run_options(*sparse, line.options, sparse_words);
  CLI::App* link = app.add_subcommand(
      "link",
      "latency, overhead and bandwidth between pairs of ranks, as mpiq-simulate --link takes them; likewise");
  add_link_options(*link, line.options, link_words);
  add_method_options(*link, line.options, link_words);
  add_run_options(*link, line.options, link_words);
  for (CLI::App* section : {allreduce, sparse, link}) section->configurable();
  app.require_subcommand(0, 1);
  if (!parse(app, argc, argv, line)) return line;
  if (explain) return stop(kUsage, "", fmt::format("mpiq-bench: {} must be the first argument\n", kExplain));
  if (list) return stop(kDone, list_text(), "");
  std::vector<CLI::App*> asked;
  for (CLI::App* section : {allreduce, sparse, link})
    if (section->parsed()) asked.push_back(section);
  if (asked.empty())
    return stop(
        kUsage, "",
        "mpiq-bench: what to do? Try 'mpiq-bench allreduce', 'mpiq-bench sparse', 'mpiq-bench link' or --help\n");
  if (asked.size() > 1)
    return stop(kUsage, "",
                fmt::format("mpiq-bench: {} or {}? The command line and the file say both\n",
                            asked[0]->get_name(), asked[1]->get_name()));
  const Status status = allreduce->parsed() ? take_words(dense_words, line.options)
                        : sparse->parsed()  ? take_sparse_words(sparse_words, line.options)
                                            : take_link_words(link_words, line.options);
  if (!status.ok())
    return stop(kUsage, "", fmt::format("mpiq-bench {}: {}\n", asked[0]->get_name(), status.text()));
  line.run = true;
  return line;
}

}  // namespace mq::bench
