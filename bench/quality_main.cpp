// mpiq-quality prints, as CSV, the error of every codec on every kind of data, beside the least error of a
// code of its kind.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/parse.hpp"
#include "bench/quality.hpp"
#include "bench/report.hpp"

namespace {

using namespace mq;
using namespace mq::bench;

struct Input {
  DataSpec data;
  std::shared_ptr<const Recording> recording;  // of a file
  std::uint64_t elements = 0;
};

struct Task {
  std::vector<MethodWord> methods;
  std::vector<Input> inputs;
};

constexpr std::uint64_t kElements = 256U << 10;  // for data that is not a file

Result<Input> read_input(const std::string& word, std::uint64_t elements) {
  auto spec = parse_data(word);
  if (!spec.ok()) return spec.status();
  Input input{std::move(*spec), nullptr, elements};
  if (input.data.distribution == Distribution::file) {
    if (has_layer(input.data.path))
      return Status{Code::bad_argument, fmt::format("'{}': one tensor at a time, without {{layer}}", word)};
    constexpr kernels::Element kType[] = {kernels::Element::f32};
    auto recording = Recording::open(input.data.path, 1, 0, kType, input.data.seed);
    if (!recording.ok()) return recording.status();
    input.recording = std::move(*recording);
  }
  if (elements == 0) input.elements = input.recording ? input.recording->count(0) : kElements;
  return input;
}

Status read_task(const std::string& methods, const std::string& data, const std::string& elements,
                 Task& task) {
  task.methods = quality_methods();
  if (!methods.empty()) {
    auto words = parse_methods(methods);
    if (!words.ok()) return words.status();
    task.methods = std::move(*words);
  }
  for (const MethodWord& word : task.methods)
    if (word.method.codec == nullptr)
      return {Code::bad_argument, fmt::format("--methods: '{}' is not a codec with parameters", word.text)};
  auto words = split_list(data);
  if (!words.ok()) return words.status();
  std::uint64_t n = 0;
  if (!elements.empty()) {
    auto given = parse_size(elements);
    if (!given.ok()) return given.status();
    if (*given == 0) return {Code::bad_argument, "-n: 0 elements"};
    n = *given;
  }
  for (const std::string& word : *words) {
    auto input = read_input(word, n);
    if (!input.ok()) return {Code::bad_argument, fmt::format("--data: {}", input.status().text())};
    task.inputs.push_back(std::move(*input));
  }
  return {};
}

bool write(const std::string& path, const std::string& text) {
  if (path.empty()) return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  std::ofstream file(path, std::ios::binary);
  return static_cast<bool>(file << text << std::flush);
}

}  // namespace

int main(int argc, char** argv) {
  std::string methods, elements, output;
  std::string data = "normal,laplace,gradient,sparse,smooth,uniform,bits,const,ramp";
  int calls = 100;
  OptionParser parser("mpiq-quality",
                      "Error of codecs beside the least error of a code of their kind, as CSV.\n\n"
                      "  mpiq-quality --methods onebit,int8 --data normal,laplace");
  parser.add({"--methods=METHOD,...", &methods,
              "codecs, see mpiq-bench --list [all, with every word of their parameters]"});
  parser.add(
      {"--data=KIND,...", &data,
       "distributions: " + distribution_names() +
           "; file:PATH, with {step}: call k reads step k of those that there are, else the next elements; {rank} is 0"});
  parser.add(
      {"-n,--elements=N", &elements, "of a vector; K, M = 2^10, 2^20 [256K; of a file all that are in it]"});
  parser.add(
      {"--calls", &calls, "calls with feedback before the residual is looked at", from_to(1, 1 << 20)});
  parser.add({"-O,--output=FILE", &output, "file [standard output]"});
  CommandLine line;
  if (!parse(parser, argc, argv, line)) {
    fmt::print("{}", line.out);
    fmt::print(stderr, "{}", line.err);
    return line.exit_code;
  }
  Task task;
  Status status = read_task(methods, data, elements, task);
  if (status.ok() && !output.empty()) status = check_place(output);
  if (!status.ok()) {
    fmt::print(stderr, "mpiq-quality: {}\n", status.text());
    return kUsage;
  }
  std::vector<Quality> rows;
  for (const Input& i : task.inputs)
    for (Quality& q : measure_quality(task.methods, i.data, i.elements, calls, i.recording))
      rows.push_back(std::move(q));
  if (write(output, quality_csv(rows))) return 0;
  fmt::print(stderr, "mpiq-quality: cannot write {}\n", output);
  return 1;
}
