#include "bench/sparse_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "bench/random.hpp"

namespace mq::bench {
namespace {

struct Word {
  std::string_view name;
  Support support;
  double preset, least, most;  // of the parameter; preset 0: there is none
  std::string_view meaning;
};
constexpr std::array<Word, 4> kWords{
    {{"uniform", Support::uniform, 0, 0, 0, ""},
     {"powerlaw", Support::powerlaw, 1.1, 0.1, 4, "exponent"},
     {"clustered", Support::clustered, 64, 1, 1e9, "mean length of runs"},
     {"correlated", Support::correlated, 0.5, 0, 1, "correlation of two ranks"}}};

const Word& word_of(Support support) {
  return *std::find_if(kWords.begin(), kWords.end(), [&](const Word& w) { return w.support == support; });
}

enum Purpose : std::uint64_t { kOwn, kCommon, kChoice, kPopularity };

std::uint64_t stream_of(std::uint64_t seed, std::uint64_t number, std::uint64_t rank, Purpose purpose) {
  std::uint64_t s = Random(seed).next();
  for (const std::uint64_t part : {number, rank, std::uint64_t{purpose}}) s = Random(s + part).next();
  return s;
}

double fraction(Random& random) { return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53; }

// The number of failures before the next success, for trials that succeed with probability p in (0, 1]. At
// most `most`.
std::uint64_t failures(Random& random, double p, std::uint64_t most) {
  const double n = std::floor(std::log(fraction(random)) / std::log1p(-p));
  return n < static_cast<double>(most) ? static_cast<std::uint64_t>(n) : most;
}

// Calls f with every success among trials first .. end - 1, in ascending order.
template <class F>
void for_successes(Random& random, double p, std::uint64_t first, std::uint64_t end, const F& f) {
  for (std::uint64_t i = first + failures(random, p, end - first); i < end;
       i += 1 + failures(random, p, end - i - 1))
    f(i);
}

std::vector<std::int64_t> bernoulli(std::uint64_t stream, double density, std::uint64_t size) {
  std::vector<std::int64_t> indices;
  Random random(stream);
  for_successes(random, density, 0, size,
                [&](std::uint64_t i) { indices.push_back(static_cast<std::int64_t>(i)); });
  return indices;
}

}  // namespace

std::string support_names() {
  std::string text;
  for (const Word& w : kWords) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", w.name);
    if (w.preset != 0) text += fmt::format(":X ({}, [{}])", w.meaning, w.preset);
  }
  return text;
}

std::string to_string(const SupportSpec& spec) {
  const Word& word = word_of(spec.support);
  return word.preset == 0 ? std::string(word.name) : fmt::format("{}:{}", word.name, spec.parameter);
}

Result<SupportSpec> parse_support(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const Word& word : kWords) {
    if (text.substr(0, colon) != word.name) continue;
    SupportSpec spec{.support = word.support, .parameter = word.preset};
    if (colon == std::string_view::npos) return spec;
    const std::string_view value = text.substr(colon + 1);
    if (word.preset == 0)
      return Status{Code::bad_argument, fmt::format("'{}': {} takes no parameter", text, word.name)};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), spec.parameter);
    if (error != std::errc{} || end != value.data() + value.size() ||
        !(spec.parameter >= word.least && spec.parameter <= word.most))
      return Status{Code::bad_argument, fmt::format("'{}': the {} is a number from {} to {}", text,
                                                    word.meaning, word.least, word.most)};
    return spec;
  }
  return Status{Code::bad_argument,
                fmt::format("unknown distribution '{}'; known: {}", text, support_names())};
}

// The popular terms are added one by one. After them the midpoint rule is used on 64 pieces of every octave;
// the terms change by less than 5 % over a piece.
double powerlaw_rate(double density, double exponent, std::uint64_t size) {
  constexpr std::uint64_t kExact = 1024, kPieces = 64;
  const auto mean = [&](double rate) {
    const auto term = [&](double r) { return -std::expm1(-rate * std::pow(r, -exponent)); };
    double sum = 0;
    for (std::uint64_t r = 1; r <= std::min(kExact, size); ++r) sum += term(static_cast<double>(r));
    for (std::uint64_t begin = kExact + 1; begin <= size;) {
      const std::uint64_t end = std::min(begin + std::max<std::uint64_t>(1, begin / kPieces), size + 1);
      const auto width = static_cast<double>(end - begin);
      sum += width * term(static_cast<double>(begin) + (width - 1) / 2);
      begin = end;
    }
    return sum / static_cast<double>(size);
  };
  // At the upper end, even the least popular index has probability 1 in double precision.
  double lo = std::log(1e-12), hi = std::log(50.0) + exponent * std::log(static_cast<double>(size));
  for (int i = 0; i < 60; ++i) {
    const double middle = (lo + hi) / 2;
    (mean(std::exp(middle)) < density ? lo : hi) = middle;
  }
  return std::exp(hi);
}

SupportGenerator::SupportGenerator(const SupportSpec& spec, std::uint64_t size)
    : spec_(spec), size_(size), place_(size, stream_of(spec.seed, 0, 0, kPopularity)) {
  if (spec.support == Support::powerlaw) rate_ = powerlaw_rate(spec.density, spec.parameter, size);
}

// Within an octave of popularity, the first index has the greatest probability. So candidates are drawn with
// this probability, and each is kept with the ratio of its own probability to it. The work grows with the
// number of indices held, not with the size.
std::vector<std::int64_t> SupportGenerator::powerlaw(std::uint64_t stream) const {
  std::vector<std::int64_t> indices;
  Random random(stream);
  const auto held = [&](std::uint64_t r) {
    return -std::expm1(-rate_ * std::pow(static_cast<double>(r), -spec_.parameter));
  };
  for (std::uint64_t begin = 1; begin <= size_; begin *= 2) {
    const double most = held(begin);
    for_successes(random, most, begin, std::min(2 * begin, size_ + 1), [&](std::uint64_t r) {
      if (fraction(random) * most < held(r)) indices.push_back(static_cast<std::int64_t>(place_(r - 1)));
    });
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

// A Markov chain in its steady state: runs of 1 or more indices and gaps of 0 or more, both geometric.
std::vector<std::int64_t> SupportGenerator::clustered(std::uint64_t stream) const {
  std::vector<std::int64_t> indices;
  Random random(stream);
  const double mean_gap = spec_.parameter * (1 - spec_.density) / spec_.density;
  const double ends_gap = 1 / (1 + mean_gap), ends_run = 1 / spec_.parameter;
  bool in_run = fraction(random) < spec_.density;
  for (std::uint64_t i = 0; i < size_; in_run = !in_run) {
    if (!in_run) {
      i += failures(random, ends_gap, size_ - i);
      continue;
    }
    for (std::uint64_t left = 1 + failures(random, ends_run, size_); left > 0 && i < size_; --left)
      indices.push_back(static_cast<std::int64_t>(i++));
  }
  return indices;
}

// For each index, each rank decides with probability sqrt(rho) to follow a list common to all ranks, and
// otherwise to follow a list of its own. So two ranks both follow the common list with probability rho.
std::vector<std::int64_t> SupportGenerator::correlated(std::uint64_t stream, std::uint64_t common) const {
  const double follows = std::sqrt(spec_.parameter);
  const std::uint64_t choice = stream_of(stream, 0, 0, kChoice);
  const auto follow = [&](std::int64_t i) {
    Random random(choice + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U);
    return fraction(random) < follows;
  };
  std::vector<std::int64_t> indices;
  for (const std::int64_t i : bernoulli(common, spec_.density, size_))
    if (follow(i)) indices.push_back(i);
  const auto middle = static_cast<std::ptrdiff_t>(indices.size());
  for (const std::int64_t i : bernoulli(stream, spec_.density, size_))
    if (!follow(i)) indices.push_back(i);
  std::inplace_merge(indices.begin(), indices.begin() + middle, indices.end());
  return indices;
}

std::vector<std::int64_t> SupportGenerator::indices(int rank, std::uint64_t number) const {
  const std::uint64_t own = stream_of(spec_.seed, number, static_cast<std::uint64_t>(rank), kOwn);
  switch (spec_.support) {
    case Support::powerlaw: return powerlaw(own);
    case Support::clustered: return clustered(own);
    case Support::correlated: return correlated(own, stream_of(spec_.seed, number, 0, kCommon));
    case Support::uniform: break;
  }
  return bernoulli(own, spec_.density, size_);
}

}  // namespace mq::bench
