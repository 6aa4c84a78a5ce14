#include "bench/research/simulate/network.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace mq::sim {
namespace {

struct Preset {
  std::string_view name, link, what;
};
constexpr std::array kPresets{
    Preset{"lab-1gbit", "5us/10us/117.5MB/0us/4GB/32KiB",
           "scripts/lab at 1 Gbit/s: TCP between network namespaces"},
    Preset{"lab-10gbit", "8us/10us/1.175GB/0us/2.5GB/122KiB", "the same at 10 Gbit/s"},
    Preset{"ethernet-10gbit", "20us/1us/10Gbit", "assumed: TCP through one switch"},
    Preset{"rdma-100gbit", "2us/0.3us/100Gbit", "assumed: kernel bypass, one switch"},
    Preset{"rdma-400gbit", "2us/0.3us/400Gbit", "the same at 400 Gbit/s"},
};

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kTimes{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};
constexpr std::array kSizes{Unit{"B", 1}, Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20}};
constexpr std::array kRates{Unit{"Mbit", 1e6 / 8}, Unit{"Gbit", 1e9 / 8}, Unit{"MB", 1e6}, Unit{"GB", 1e9}};

Status unusable(std::string text) { return {Code::bad_argument, std::move(text)}; }

template <std::size_t N>
Status parse_number(std::string_view text, const std::array<Unit, N>& units, double& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& u : units)
    if (error == std::errc{} && unit == u.name && std::isfinite(number) && number >= 0) {
      value = number * u.factor;
      return {};
    }
  std::string names;
  for (const Unit& u : units) names.append(names.empty() ? "" : ", ").append(u.name);
  return unusable("'" + std::string(text) + "' is not a number with one of " + names);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t slash = 0; slash != std::string_view::npos;) {
    slash = text.find('/');
    words.push_back(text.substr(0, slash));
    if (slash != std::string_view::npos) text.remove_prefix(slash + 1);
  }
  return words;
}

}  // namespace

Status parse_link(std::string_view text, Network& network) {
  for (const Preset& preset : kPresets)
    if (preset.name == text) text = preset.link;
  const std::vector<std::string_view> words = split(text);
  if (words.size() < 3 || words.size() > 6)
    return unusable(
        "'" + std::string(text) +
        "' is neither a preset nor LATENCY/OVERHEAD/BANDWIDTH[/GAP[/COPY[/BURST]]], such as 20us/1us/10Gbit");
  Network parsed = network;
  MQ_TRY(parse_number(words[0], kTimes, parsed.latency_s));
  MQ_TRY(parse_number(words[1], kTimes, parsed.overhead_s));
  MQ_TRY(parse_number(words[2], kRates, parsed.bandwidth_Bps));
  parsed.gap_s = parsed.copy_s = parsed.burst_bytes = 0;
  if (words.size() > 3) MQ_TRY(parse_number(words[3], kTimes, parsed.gap_s));
  if (words.size() > 4) {
    double copy_Bps = 0;
    MQ_TRY(parse_number(words[4], kRates, copy_Bps));
    parsed.copy_s = 1 / copy_Bps;
  }
  if (words.size() > 5) MQ_TRY(parse_number(words[5], kSizes, parsed.burst_bytes));
  MQ_TRY(check(parsed));
  network = parsed;
  return {};
}

Status parse_node(std::string_view text, Network& network) {
  const std::vector<std::string_view> words = split(text);
  if (words.size() != 2)
    return unusable("'" + std::string(text) + "' is not LATENCY/BANDWIDTH, such as 500ns/8GB");
  Network parsed = network;
  MQ_TRY(parse_number(words[0], kTimes, parsed.node_latency_s));
  MQ_TRY(parse_number(words[1], kRates, parsed.node_bandwidth_Bps));
  MQ_TRY(check(parsed));
  network = parsed;
  return {};
}

Status parse_times(std::string_view text, std::span<double> values) {
  const std::vector<std::string_view> words = split(text);
  std::vector<double> parsed(values.size());
  if (words.size() != values.size())
    return unusable("'" + std::string(text) + "' is not " + std::to_string(values.size()) +
                    " times, such as 2ns, with / between them");
  for (std::size_t i = 0; i < words.size(); ++i) MQ_TRY(parse_number(words[i], kTimes, parsed[i]));
  std::copy(parsed.begin(), parsed.end(), values.begin());
  return {};
}

std::string link_presets() {
  std::string text;
  for (const Preset& p : kPresets)
    text.append("  ").append(p.name).append(": ").append(p.link).append(", ").append(p.what).append("\n");
  return text;
}

Status check(const Network& n) {
  const auto usable = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!usable(n.latency_s) || !usable(n.overhead_s) || !usable(n.gap_s) || !usable(n.copy_s) ||
      !usable(n.burst_bytes) || !usable(n.node_latency_s))
    return unusable("a time or burst of the network is negative or not finite");
  if (!(n.bandwidth_Bps > 0) || !(n.node_bandwidth_Bps > 0))
    return unusable("a bandwidth of the network is not above 0");
  if (n.per_node < 1 || n.nodes_per_switch < 1)
    return unusable("a node has at least one rank, and a switch at least one node");
  if (!(n.oversubscription >= 1) || !std::isfinite(n.oversubscription))
    return unusable("the oversubscription is below 1");
  return {};
}

}  // namespace mq::sim
