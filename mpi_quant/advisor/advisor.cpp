#include "mpi_quant/advisor/advisor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "mpi_quant/base/float_mode.hpp"

namespace mq {
namespace {

// A class may save up time for this many samples. It leaves that time to classes with fewer samples.
constexpr std::uint64_t kMostReserve = 4;

double mean(double sum, std::uint64_t n) { return sum / static_cast<double>(n); }

}  // namespace

// Measures the time of one visit and adds it when the visit ends.
class Advisor::Timed {
 public:
  explicit Timed(Advisor& advisor) : advisor_(advisor), start_(advisor.clock_()) {
    if (advisor.first_s_ < 0) advisor.first_s_ = start_;
  }
  // States how many elements this visit samples.
  void samples(std::size_t elements) { elements_ = elements; }
  ~Timed() {
    if (elements_ == 0) return;
    const double spent = advisor_.clock_() - start_;
    advisor_.spent_s_ += spent;
    // Halving forgets a single interruption. Copying a window is cheap, so it is not counted.
    advisor_.element_s_ = std::max(advisor_.element_s_ / 2, spent / static_cast<double>(elements_));
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Advisor& advisor_;
  const double start_;
  std::size_t elements_ = 0;
  const DefaultFloats mode_;  // the program may trap on NaN, or read the flags
};

// Position k is k times the golden section, modulo 1. Each new position falls into one of the widest gaps
// between the earlier ones.
Window window_of(std::uint64_t k, std::size_t count) {
  if (count <= kWindowElements) return {0, count};
  constexpr double kGolden = 0.6180339887498949;
  const double at = std::fmod(static_cast<double>(k) * kGolden, 1.0);
  const std::size_t places = (count - kWindowElements) / kWindowGrain + 1;
  const auto place = std::min(places - 1, static_cast<std::size_t>(at * static_cast<double>(places)));
  return {place * kWindowGrain, kWindowElements};
}

// A class with more samples than another needs more spare time, so that the others come first. The amount is
// limited, because some classes never come again.
bool Advisor::affords(const ClassSamples& own, std::size_t elements) const {
  if (own.samples == 0) return true;
  std::uint64_t least = own.samples;
  for (const auto& [id, other] : samples_) least = std::min(least, other.samples);
  const double cost = element_s_ * static_cast<double>(elements);
  const double reserve = cost * static_cast<double>(std::min(own.samples - least, kMostReserve));
  return spent_s_ + cost + reserve <= kShare * (clock_() - first_s_) + kGrace_s;
}

void Advisor::sample(ClassSamples& into, const std::byte* input, const std::byte* result, std::size_t n,
                     kernels::Element element, int ranks, double memory_s) {
  if (!trials_.try_methods(input, n, element, isa_, ranks, Trials::Stage::contribution, into.input)) return;
  (void)trials_.try_methods(result, n, element, isa_, ranks, Trials::Stage::aggregate, into.result);
  const double of_element = memory_s / static_cast<double>(n);
  into.memory_s = into.values.n == 0 ? of_element : std::min(into.memory_s, of_element);
  into.values.add(input, n, element);
  into.element = element;
}

void Advisor::see(const ClassId& id, const std::byte* input, std::size_t count, kernels::Element element,
                  const std::byte* result) noexcept {
  if (count == 0 || element != kernels::compute_element(element)) return;
  try {
    const std::scoped_lock lock(mutex_);
    Timed timed(*this);
    ClassSamples& own = samples_[id];
    const Window window = window_of(own.samples, count);
    if (!affords(own, window.n)) return;
    timed.samples(window.n);
    ++own.samples;
    const std::size_t size = kernels::element_bytes(element), offset = window.begin * size;
    const double memory_s = time_to_read(input + offset, window.n * size);
    sample(own, input + offset, result + offset, window.n, element, id.ranks, memory_s);
  } catch (const std::bad_alloc&) {  // this sample is lost
  }
}

Advisor::Kept Advisor::keep(const ClassId& id, const std::byte* input, std::size_t count,
                            kernels::Element element) noexcept {
  Kept kept;
  if (count == 0 || element != kernels::compute_element(element)) return kept;
  try {
    const std::scoped_lock lock(mutex_);
    Timed timed(*this);
    ClassSamples& own = samples_[id];
    const Window window = window_of(own.samples, count);
    const std::size_t size = kernels::element_bytes(element);
    if (!affords(own, window.n)) return kept;
    timed.samples(window.n);
    ++own.samples;
    if (!kept.input.reserve(window.n * size)) return kept;
    kept.memory_s = time_to_read(input + window.begin * size, window.n * size);
    std::memcpy(kept.input.data(), input + window.begin * size, window.n * size);
    kept.begin = window.begin;
    kept.n = window.n;
    kept.element = element;
  } catch (const std::bad_alloc&) {
  }
  return kept;
}

void Advisor::see(const ClassId& id, const Kept& kept, const std::byte* result) noexcept {
  if (kept.n == 0) return;
  try {
    const std::scoped_lock lock(mutex_);
    Timed timed(*this);
    timed.samples(kept.n);
    sample(samples_[id], kept.input.data(), result + kept.begin * kernels::element_bytes(kept.element),
           kept.n, kept.element, id.ranks, kept.memory_s);
  } catch (const std::bad_alloc&) {
  }
}

std::string record_kind(std::string_view version, std::span<const Candidate> tried) {
  std::string kind = "record of mpi_quant " + std::string(version) + " with trials of";
  for (const Candidate& candidate : tried)
    kind.append(&candidate == tried.data() ? " " : ", ") += candidate.text;
  return kind;
}

Samples Advisor::samples() const {
  const std::scoped_lock lock(mutex_);
  return samples_;
}

double Advisor::spent_s() const {
  const std::scoped_lock lock(mutex_);
  return spent_s_;
}

void ClassSums::add(const ClassSamples& of_rank) {
  methods.resize(candidates().size());
  if (of_rank.input.empty() || of_rank.result.size() != of_rank.input.size()) return;
  element = of_rank.element;
  samples += of_rank.samples;
  ++ranks;
  values.merge(of_rank.values);
  memory_s += of_rank.memory_s;
  for (std::size_t c = 0; c < methods.size() && c < of_rank.input.size(); ++c) {
    MethodSums& sums = methods[c];
    const Trial& input = of_rank.input[c];
    sums.input.add(input);
    sums.result.add(of_rank.result[c]);
    if (input.measured == 0) continue;
    ++sums.ranks;
    sums.error2 += mean(input.error2, input.measured);
    sums.norm2 += mean(input.norm2, input.measured);
    sums.decoded2 += mean(input.decoded2, input.measured);
  }
}

std::optional<double> estimated_error(const MethodSums& sums, int ranks, const Losses& losses) {
  if (sums.input.ruined + sums.result.ruined > 0) return std::numeric_limits<double>::infinity();
  if (sums.ranks == 0 || sums.result.measured == 0) return std::nullopt;
  const double result2 = mean(sums.result.norm2, sums.result.measured);
  const double contributions2 = losses.contributions * ranks * sums.error2 / sums.ranks;
  const double kept = sums.norm2 > 0 ? sums.decoded2 / sums.norm2 : 0;
  const double aggregate2 = losses.aggregate * kept * mean(sums.result.error2, sums.result.measured);
  const double error2 = contributions2 + aggregate2;
  if (error2 == 0) return 0;
  if (!(result2 > 0) || !std::isfinite(error2) || !std::isfinite(result2)) return std::nullopt;
  return std::sqrt(error2 / result2);
}

double resemblance(const MethodSums& sums, int ranks) {
  if (sums.ranks == 0 || sums.result.measured == 0 || !(sums.norm2 > 0)) return 1;
  const double inputs2 = ranks * sums.norm2 / sums.ranks;
  const double ratio = mean(sums.result.norm2, sums.result.measured) / inputs2;
  return std::isfinite(ratio) ? std::clamp(ratio, 1.0, static_cast<double>(std::max(ranks, 1))) : 1;
}

}  // namespace mq
