#include "bench/options.hpp"

#include <fmt/format.h>

#include <set>

#include "bench/config_file.hpp"
#include "bench/explain.hpp"
#include "bench/link.hpp"
#include "bench/list_output.hpp"
#include "bench/models.hpp"
#include "bench/option_table.hpp"
#include "bench/parse.hpp"

namespace mq::bench {
namespace {

constexpr std::uint64_t kMostLinkBytes = std::uint64_t{64} << 20;  // 16 of them are in flight each way

Status usage(std::string_view option, const std::string& text) {
  return {Code::bad_argument, fmt::format("{}: {}", option, text)};
}

// What options say of each other.
Status check_together(const Options& o) {
  if (!o.model.empty() && find_model(o.model) == nullptr)
    return usage("--model", fmt::format("unknown model '{}', see --help", o.model));
  if (o.min_bytes == 0 || o.min_bytes > o.max_bytes)
    return usage("--min-bytes", fmt::format("{} to {} bytes is no range of sizes", o.min_bytes, o.max_bytes));
  for (const MethodWord& m : o.methods)
    if (m.dense != Dense::host && o.memory == Place::host)
      return usage("--methods", fmt::format("{} is for --memory cuda", m.text));
  if (o.isolated && o.min_speedup > 0) return usage("--min-speedup", "isolated methods have no speed-up");
  if (o.max_reps < o.min_reps)
    return usage("--max-reps", fmt::format("{} is less than --min-reps {}", o.max_reps, o.min_reps));
  return {};
}

Status take_dense(const OptionTexts& texts, Options& o) {
  MQ_TRY(texts.read(o));
  return check_together(o);
}

Status take_sparse(const OptionTexts& texts, Options& o) {
  o.sparse.emplace();
  o.feedback = false;
  o.buffers = Buffers::warm;
  return take_dense(texts, o);
}

Status take_link(const OptionTexts& texts, Options& o) {
  o.is_link = true;
  o.feedback = false;
  o.methods = link_methods();
  o.baseline = o.methods.front().text;
  MQ_TRY(take_dense(texts, o));
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
  OptionTexts dense_texts, sparse_texts, link_texts;
  bool list = false, explain = false;
  CLI::App app{"Measures allreduce of float vectors: plain, compressed and sparse.", "mpiq-bench"};
  add_config(app);
  app.add_flag(std::string(kExplain), explain,
               "as the first argument: print what degrees Kylix would have and what they cost; "
               "options by --explain-kylix --help");
  app.add_flag("-l,--list", list, "print methods: codecs, plans, sparse reductions");
  CLI::App* allreduce =
      app.add_subcommand("allreduce", "sweep sizes x types x ranks x methods; start it with mpiexec");
  dense_texts.add(*allreduce, kAllreduce, line.options);
  CLI::App* sparse = app.add_subcommand(
      "sparse", "sweep sizes x densities x distributions x strides x types x ranks x methods; likewise");
  sparse_texts.add(*sparse, kSparse, line.options);
  CLI::App* link = app.add_subcommand(
      "link",
      "latency, overhead and bandwidth between pairs of ranks, as mpiq-simulate --link takes them; likewise");
  link_texts.add(*link, kLink, line.options);
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
  const Status status = allreduce->parsed() ? take_dense(dense_texts, line.options)
                        : sparse->parsed()  ? take_sparse(sparse_texts, line.options)
                                            : take_link(link_texts, line.options);
  if (!status.ok())
    return stop(kUsage, "", fmt::format("mpiq-bench {}: {}\n", asked[0]->get_name(), status.text()));
  line.run = true;
  return line;
}

}  // namespace mq::bench
