// mpiq-quality: the error of every codec on every kind of data, beside the least error of a code of its kind,
// as CSV.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "bench/quality.hpp"

namespace {

using namespace mq;
using namespace mq::bench;

struct Task {
  std::vector<MethodWord> methods;
  std::vector<DataSpec> data;
  std::uint64_t elements = 0;
};

Status read_task(const std::string& methods, const std::string& data, const std::string& elements,
                 Task& task) {
  task.methods = quality_methods();
  if (!methods.empty()) {
    auto words = parse_methods(methods);
    if (!words.ok()) return words.status();
    task.methods = std::move(*words);
  }
  for (const MethodWord& word : task.methods)
    if (word.method.exact())
      return {Code::bad_argument, fmt::format("--methods: '{}' is not a codec with parameters", word.text)};
  auto words = split_list(data);
  if (!words.ok()) return words.status();
  for (const std::string& word : *words) {
    auto spec = parse_data(word);
    if (!spec.ok()) return spec.status();
    if (spec->distribution == Distribution::file)
      return {Code::bad_argument, fmt::format("'{}': only mpiq-bench takes files", word)};
    task.data.push_back(*spec);
  }
  auto n = parse_size(elements);
  if (!n.ok()) return n.status();
  if (*n == 0) return {Code::bad_argument, "-n: 0 elements"};
  task.elements = *n;
  return {};
}

bool write(const std::string& path, const std::string& text) {
  if (path.empty()) return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  std::ofstream file(path, std::ios::binary);
  return static_cast<bool>(file << text << std::flush);
}

}  // namespace

int main(int argc, char** argv) {
  std::string methods, elements = "256K", output;
  std::string data = "normal,laplace,gradient,sparse,smooth,uniform,bits,const,ramp";
  int calls = 100;
  CLI::App app{"Error of codecs beside the least error of a code of their kind, as CSV.", "mpiq-quality"};
  app.add_option("--methods", methods,
                 "codecs, see mpiq-bench --list [all, with every word of their parameters]");
  app.add_option("--data", data, "distributions: " + distribution_names())->capture_default_str();
  app.add_option("-n,--elements", elements, "of a vector; K, M = 2^10, 2^20")->capture_default_str();
  app.add_option("--calls", calls, "calls with feedback before the residual is looked at")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("-O,--output", output, "file [standard output]");
  CLI11_PARSE(app, argc, argv);
  Task task;
  if (const Status s = read_task(methods, data, elements, task); !s.ok()) {
    fmt::print(stderr, "mpiq-quality: {}\n", s.text());
    return 2;
  }
  std::vector<Quality> rows;
  for (const DataSpec& spec : task.data)
    for (Quality& q : measure_quality(task.methods, spec, task.elements, calls)) rows.push_back(std::move(q));
  if (write(output, quality_csv(rows))) return 0;
  fmt::print(stderr, "mpiq-quality: cannot write {}\n", output);
  return 1;
}
