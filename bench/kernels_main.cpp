// mpiq-kernels measures the codecs alone: on the processor (kernels_host.cpp) or, with --memory cuda, on a
// GPU (kernels_cuda.cpp). With --methods it measures these in place of all codecs:
// "int8(round=stochastic),topk memory=momentum". All other options are those of Google Benchmark.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels_cuda.hpp"
#include "bench/kernels_host.hpp"
#include "bench/split_list.hpp"

namespace {

using mq::Method;

// Removes `NAME VALUE` or `NAME=VALUE` from the arguments and returns the value, "" if there is none, or
// nothing if the name is not there.
std::optional<std::string> take(std::string_view name, int& argc, char** argv) {
  std::optional<std::string> value;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == name)
      value = i + 1 < argc ? argv[++i] : "";
    else if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
      value = word.substr(name.size() + 1);
    else
      argv[kept++] = argv[i];
  }
  argc = kept;
  return value;
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

mq::Result<std::vector<Method>> parse(const std::string& text) {
  const auto words = mq::bench::split_list(text);
  if (!words.ok()) return words.status();
  std::vector<Method> methods;
  for (const std::string& word : *words) {
    const auto method = mq::parse_method(word);
    if (!method.ok()) return method.status();
    if (method->codec == nullptr || method->scheme != nullptr || method->plan != nullptr)
      return mq::Status{mq::Code::bad_argument,
                        "'" + word + "' is not a codec with or without a memory rule"};
    methods.push_back(*method);
  }
  return methods;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "mpiq-kernels: %s\n", why.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("mpiq-kernels " MPIQ_VERSION);
    return 0;
  }
  const std::string memory = take("--memory", argc, argv).value_or("host");
  const std::optional<std::string> list = take("--methods", argc, argv);
  if (memory == "host") {
    const auto methods = list ? parse(*list) : all_codecs();
    if (!methods.ok()) return refuse("--methods: " + methods.status().text());
    mq::bench::register_host_cases(*methods);
  } else if (memory != "cuda") {
    return refuse("--memory: neither host nor cuda");
  } else if (list) {
    return refuse("--methods: only with --memory host");
  } else if (!mq::bench::register_gpu_cases()) {
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
