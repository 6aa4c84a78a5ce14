#include "bench/explain.hpp"

#include <fmt/format.h>

#include "bench/parse.hpp"
#include "bench/parse_lists.hpp"
#include "sparse_allreduce/degrees.hpp"

namespace mq::bench {
namespace {

// The options as the user writes them, in units for people.
struct Words {
  int ranks = 64;
  std::string size = "16M", entries, distribution = "uniform", dtype = "f32", degrees, lists = "same";
  double density = 0.01;
  std::size_t stride = 1;
  double latency_us, further_us, bandwidth_GBps, merge_ns;
};

void add_options(OptionParser& parser, Words& w) {
  parser.group("Lists");
  parser.add({"--ranks", &w.ranks, "of the reduction", from_to(1, 1 << 20)});
  parser.add({"--size=N", &w.size, "indices that there are; K, M, G = 2^10, 2^20, 2^30"});
  parser.add({"--density", &w.density, "fraction of them that each rank holds and asks for"});
  parser.add({.flags = "--entries=N",
              .value = &w.entries,
              .help = "their number, in place of the density",
              .excludes = {"--density"}});
  parser.add({"--distribution=uniform|powerlaw:A", &w.distribution,
              "uniform: all indices are equally frequent; powerlaw:A: the r-th in proportion to r^-A"});
  parser.add({"--stride", &w.stride, "values at each index", above_zero()});
  parser.add({"-d,--dtype=f32|f64", &w.dtype, "of the values", one_of({"f32", "f64"})});
  parser.add({"--lists=same|new", &w.lists, "same: values only are sent (kylix); new: indices too (fused)",
              one_of({"same", "new"})});
  parser.add({"--degrees=NxN...", &w.degrees, "price these, such as 8x4x2 [the cheapest]"});
  parser.group("Network and processor");
  parser.add({"--latency=US", &w.latency_us, "of a message, in microseconds", above_zero()});
  parser.add({"--further=US", &w.further_us,
              "of each further message that is under way at the same time, in microseconds",
              at_least_zero()});
  parser.add({"--bandwidth=GB/S", &w.bandwidth_GBps, "of a rank with all ranks sending, in 10^9 bytes/s",
              above_zero()});
  parser.add({"--merge=NS", &w.merge_ns, "an entry into another list, in nanoseconds", at_least_zero()});
}

Status take_words(const Words& w, sparse::KylixQuestion& q) {
  const auto unusable = [](std::string_view option, const std::string& why) {
    return Status{Code::bad_argument, fmt::format("{}: {}", option, why)};
  };
  const auto size = parse_sizes(w.size);
  if (!size.ok()) return unusable("--size", size.status().text());
  if (size->size() != 1) return unusable("--size", "one size, not a list");
  q.size = static_cast<double>((*size)[0]);
  if (!(w.density > 0 && w.density <= 1))
    return unusable("--density", fmt::format("{} is not in (0, 1]", w.density));
  q.entries = q.size * w.density;
  if (!w.entries.empty()) {
    const auto entries = parse_sizes(w.entries);
    if (!entries.ok() || entries->size() != 1)
      return unusable("--entries", fmt::format("'{}' is not a number of indices", w.entries));
    q.entries = static_cast<double>((*entries)[0]);
    if (q.entries > q.size) return unusable("--entries", fmt::format("{} of {} indices", q.entries, q.size));
  }
  const auto support = parse_support(w.distribution);
  if (!support.ok()) return unusable("--distribution", support.status().text());
  if (support->support != Support::uniform && support->support != Support::powerlaw)
    return unusable("--distribution", "the model knows uniform and powerlaw:A");
  q.alpha = support->parameter;
  if (!w.degrees.empty()) {
    if (const Status s = check_degrees(w.degrees, w.ranks); !s.ok()) return unusable("--degrees", s.text());
    q.degrees = *parse_degrees(w.degrees);
  }
  q.ranks = w.ranks;
  q.stride = w.stride;
  q.element_bytes = w.dtype == "f64" ? 8 : 4;
  q.with_positions = w.lists == "new";
  return {};
}

}  // namespace

CommandLine explain_kylix(int argc, const char* const* argv) {
  sparse::Network network;
  Words words{};
  words.latency_us = network.latency_s * 1e6;
  words.further_us = network.further_s * 1e6;
  words.bandwidth_GBps = 1e-9 / network.s_per_byte;
  words.merge_ns = network.s_per_entry * 1e9;
  OptionParser parser(
      fmt::format("mpiq-bench {}", kExplain),
      "The degrees of Kylix's layers, and what each sends and costs by the model that chooses them.\n\n"
      "  mpiq-bench --explain-kylix --ranks 64 --size 16M --density 0.01");
  add_options(parser, words);
  CommandLine line;
  if (!parse(parser, argc - 1, argv + 1, line))
    return line;  // kExplain takes the place of the program's name
  sparse::KylixQuestion question;
  if (!refuse(parser, take_words(words, question), line)) return line;
  network.latency_s = words.latency_us * 1e-6;
  network.further_s = words.further_us * 1e-6;
  network.s_per_byte = 1e-9 / words.bandwidth_GBps;
  network.s_per_entry = words.merge_ns * 1e-9;
  for (const std::string& text : sparse::explain_kylix(question, network)) line.out += text + "\n";
  return line;
}

}  // namespace mq::bench
