#include "bench/arrival.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "bench/random.hpp"
#include "bench/split_list.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

using Pattern = Arrival::Pattern;

constexpr double kMostMicroseconds = 1e6, kMicrosecond = 1e-6;
constexpr double kTail = 10;  // an exponential delay is at most so many of its means

struct Word {
  std::string_view word;
  Pattern pattern;
};
constexpr std::array kWords{Word{"uniform", Pattern::uniform}, Word{"exponential", Pattern::exponential},
                            Word{"one", Pattern::one}, Word{"ramp", Pattern::ramp}};
constexpr std::string_view kTogether = "together";

Status refuse(std::string_view text) {
  return {Code::bad_argument,
          fmt::format("'{}' is neither 'together' nor one of uniform, exponential, one, ramp with "
                      "microseconds, such as uniform:100",
                      text)};
}

// In [0, 1).
double part(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

}  // namespace

Result<Arrival> parse_arrival(std::string_view text) {
  if (text == kTogether) return Arrival{};
  const std::size_t colon = text.find(':');
  const auto* const word = std::find_if(kWords.begin(), kWords.end(),
                                        [&](const Word& w) { return w.word == text.substr(0, colon); });
  if (word == kWords.end() || colon == std::string_view::npos) return refuse(text);
  double scale_us = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, scale_us);
  if (error != std::errc{} || rest != end || !(scale_us > 0 && scale_us <= kMostMicroseconds))
    return Status{Code::bad_argument, fmt::format("'{}': microseconds are more than 0 and at most {}", text,
                                                  static_cast<int>(kMostMicroseconds))};
  return Arrival{word->pattern, scale_us};
}

Result<std::vector<Arrival>> parse_arrivals(std::string_view text) {
  const auto words = split_list(text);
  if (!words.ok()) return words.status();
  std::vector<Arrival> arrivals;
  for (const std::string& word : *words) {
    const auto arrival = parse_arrival(word);
    if (!arrival.ok()) return arrival.status();
    if (std::find(arrivals.begin(), arrivals.end(), *arrival) != arrivals.end())
      return Status{Code::bad_argument, fmt::format("'{}' is listed twice", word)};
    arrivals.push_back(*arrival);
  }
  return arrivals;
}

std::string to_string(const Arrival& arrival) {
  for (const Word& w : kWords)
    if (w.pattern == arrival.pattern) return fmt::format("{}:{}", w.word, arrival.scale_us);
  return std::string(kTogether);
}

std::vector<double> delays_s(const Arrival& arrival, int ranks, std::uint64_t seed,
                             std::uint64_t repetition) {
  std::vector<double> delays(static_cast<std::size_t>(ranks), 0.0);
  Random random(seed ^ Random(repetition).next());
  const double most = arrival.scale_us * kMicrosecond;
  switch (arrival.pattern) {
    case Pattern::together: break;
    case Pattern::uniform:
      for (double& d : delays) d = most * part(random);
      break;
    case Pattern::exponential:
      for (double& d : delays) d = most * std::min(-std::log1p(-part(random)), kTail);
      break;
    case Pattern::one: delays[random.next() % delays.size()] = most; break;
    case Pattern::ramp:
      for (std::size_t r = 1; r < delays.size(); ++r)
        delays[r] = most * static_cast<double>(r) / static_cast<double>(delays.size() - 1);
      break;
  }
  return delays;
}

double arrive(const Arrival& arrival, int rank, int ranks, std::uint64_t seed, std::uint64_t repetition) {
  if (arrival == Arrival{}) return 0;
  const double released = now_s();
  const std::vector<double> delays = delays_s(arrival, ranks, seed, repetition);
  double late = now_s() - released;
  while (late < delays[static_cast<std::size_t>(rank)]) late = now_s() - released;
  return *std::max_element(delays.begin(), delays.end()) - late;
}

}  // namespace mq::bench
