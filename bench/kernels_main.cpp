// mpiq-kernels measures the codecs alone: on the processor (kernels_host.cpp) or on a GPU (kernels_cuda.cpp).
// Google Benchmark measures, prints, and reads the options that begin with --benchmark.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/kernels_cuda.hpp"
#include "bench/kernels_host.hpp"
#include "bench/split_list.hpp"
#include "mpi_quant/run/option_parser.hpp"

namespace {

using mq::Method;

constexpr const char* kWhat =
    "Measures the codecs alone: how fast one core, or a GPU, encodes and decodes. Each row is "
    "METHOD/WORK/TYPE/INSTRUCTIONS/SIZE, such as onebit/encode+feedback/f32/avx2/65536KiB:\n\n"
    "  mpiq-kernels --benchmark_filter='/(encode.feedback|decode.add)/f32/.*/65536KiB'\n"
    "  mpiq-kernels --methods 'int8 memory=ef21,topk(k=0.001)' --benchmark_filter='/f32/avx2/256KiB'\n"
    "  mpiq-kernels --memory cuda --benchmark_filter='onebit/.*/f32'\n\n"
    "Options that begin with --benchmark belong to Google Benchmark.";

// Of Google Benchmark: those that both its old and its new versions have.
void describe_benchmark(mq::OptionParser& parser) {
  parser.group("Rows");
  parser.describe("--benchmark_filter=REGEX",
                  "only rows whose name has a part that matches; -REGEX: only the others");
  parser.describe("--benchmark_list_tests", "print the names of the rows, measure nothing");
  parser.group("Repetitions");
  parser.describe("--benchmark_min_time=SECONDS",
                  "rows of large vectors are repeated for at least so long [0.5]");
  parser.describe("--benchmark_min_warmup_time=SECONDS", "before each row [0]");
  parser.describe("--benchmark_repetitions=N",
                  "measure each row so many times, and print mean, median and deviation [1]");
  parser.describe("--benchmark_enable_random_interleaving=true|false",
                  "repetitions of all rows in random order, against drift [false]");
  parser.describe("--benchmark_report_aggregates_only=true|false",
                  "of repetitions only mean, median and deviation [false]");
  parser.describe("--benchmark_display_aggregates_only=true|false",
                  "the same on the terminal, but not in the file [false]");
  parser.group("Output");
  parser.describe("--benchmark_format=console|json|csv", "of what is printed [console]");
  parser.describe("--benchmark_out=FILE",
                  "write the rows to this file too, such as for mpiq-simulate --rates");
  parser.describe("--benchmark_out_format=json|console|csv", "of that file [json]");
  parser.describe("--benchmark_color=auto|true|false", "of the text on a terminal [auto]");
  parser.describe("--benchmark_counters_tabular=true|false", "a column for each counter [false]");
  parser.describe("--benchmark_context=KEY=VALUE,...", "write these to the file, too");
}

std::vector<Method> all_codecs() {
  std::vector<Method> methods;
  for (const mq::kernels::Codec& codec : mq::kernels::codecs()) {
    Method& method = methods.emplace_back();
    method.codec = &codec;
    method.params = preset_params(codec);
  }
  return methods;
}

mq::Status read(const std::string& text, std::vector<Method>& methods) {
  const auto words = mq::bench::split_list(text);
  if (!words.ok()) return words.status();
  methods.clear();
  for (const std::string& word : *words) {
    const auto method = mq::parse_method(word);
    if (!method.ok()) return method.status();
    if (method->codec == nullptr || method->scheme != nullptr || method->plan != nullptr)
      return {mq::Code::bad_argument, "'" + word + "' is not a codec with or without a memory rule"};
    methods.push_back(*method);
  }
  return {};
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "mpiq-kernels: %s\n", why.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::string memory = "host";
  std::vector<Method> methods = all_codecs();
  mq::OptionParser parser("mpiq-kernels", kWhat);
  parser.group("Rows");
  parser.add({"--methods=METHOD,...",
              mq::Option::Text{"", [&](const std::string& text) { return read(text, methods); }},
              "codecs with parameters, and memory rules [all codecs with their presets]"});
  parser.add({"--memory=host|cuda", &memory, "measure the processor, or the first visible GPU",
              mq::one_of({"host", "cuda"})});
  describe_benchmark(parser);
  parser.leave_others();
  const mq::Parsed parsed = parser.parse(argc, argv, "mpiq-kernels " MPIQ_VERSION);
  if (!parsed.run) {
    std::fputs(parsed.out.c_str(), stdout);
    std::fputs(parsed.err.c_str(), stderr);
    return parsed.is_usage_error ? 2 : 0;
  }
  if (const mq::Status status = parser.read(); !status.ok()) return refuse(status.text());
  std::vector<std::string> words = parser.rest();
  std::vector<char*> others{argv[0]};
  for (std::string& word : words) others.push_back(word.data());
  int count = static_cast<int>(others.size());
  benchmark::Initialize(&count, others.data());
  if (count > 1) return refuse("'" + std::string(others[1]) + "' is no option; see mpiq-kernels --help");
  if (memory == "host")
    mq::bench::register_host_cases(methods);
  else if (parser.was_given("--methods"))
    return refuse("--methods: only with --memory host");
  else if (!mq::bench::register_gpu_cases())
    return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
