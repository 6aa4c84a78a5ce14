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

bool may_be_seen(const Vectors& v) {
  return v.input_range.n > 0 && v.element == kernels::compute_element(v.element);
}

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
Window window_of(std::uint64_t k, std::size_t count, double first) {
  if (count <= kWindowElements) return {0, count};
  constexpr double kGolden = 0.6180339887498949;
  const double at = std::fmod(first + static_cast<double>(k) * kGolden, 1.0);
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

struct Advisor::Windows {
  Window input, result;
};

// None if there is no time for the sample. The result's window lies in the input's, as far as both are whole
// vectors. A rank that gets a part of the sum looks at that part of its input first. So the first samples of
// all ranks have the same elements in their inputs and in their results.
std::optional<Advisor::Windows> Advisor::begin_sample(ClassSamples& own, const Vectors& v, Timed& timed) {
  const auto ahead = static_cast<double>(v.result_range.n > 0 ? v.result_range.begin : 0);
  const Windows at{window_of(own.samples, v.input_range.n, ahead / static_cast<double>(v.input_range.n)),
                   window_of(own.samples, v.result_range.n)};
  if (!affords(own, at.input.n)) return {};
  timed.samples(at.input.n);
  ++own.samples;
  own.elements += v.input_range.n;
  return at;
}

void Advisor::sample(ClassSamples& into, const std::byte* input, std::size_t n, const std::byte* result,
                     std::size_t result_n, kernels::Element element, int ranks, double memory_s) {
  if (!trials_.try_methods(input, n, element, isa_, ranks, Trials::Stage::contribution, into.input)) return;
  if (result_n == 0)
    into.result.resize(into.input.size());
  else
    (void)trials_.try_methods(result, result_n, element, isa_, ranks, Trials::Stage::aggregate, into.result);
  const double of_element = memory_s / static_cast<double>(n);
  into.memory_s = into.values.n == 0 ? of_element : std::min(into.memory_s, of_element);
  into.values.add(input, n, element);
  into.element = element;
}

void Advisor::see(const ClassId& id, const Vectors& v) noexcept {
  if (!may_be_seen(v)) return;
  try {
    const std::scoped_lock lock(mutex_);
    Timed timed(*this);
    ClassSamples& own = samples_[id];
    const std::optional<Windows> at = begin_sample(own, v, timed);
    if (!at) return;
    const std::size_t size = kernels::element_bytes(v.element);
    const std::byte* const input = v.input + at->input.begin * size;
    const double memory_s = time_to_read(input, at->input.n * size);
    sample(own, input, at->input.n, v.result + at->result.begin * size, at->result.n, v.element, id.ranks,
           memory_s);
  } catch (const std::bad_alloc&) {  // this sample is lost
  }
}

Advisor::Kept Advisor::keep(const ClassId& id, const Vectors& v) noexcept {
  Kept kept;
  if (!may_be_seen(v)) return kept;
  try {
    const std::scoped_lock lock(mutex_);
    Timed timed(*this);
    const std::optional<Windows> at = begin_sample(samples_[id], v, timed);
    if (!at) return kept;
    const std::size_t size = kernels::element_bytes(v.element), bytes = at->input.n * size;
    if (!kept.input.reserve(bytes)) return kept;
    const std::byte* const input = v.input + at->input.begin * size;
    kept.memory_s = time_to_read(input, bytes);
    std::memcpy(kept.input.data(), input, bytes);
    kept.n = at->input.n;
    kept.result = at->result;
  } catch (const std::bad_alloc&) {
  }
  return kept;
}

void Advisor::see(const ClassId& id, const Kept& kept, const Vectors& v) noexcept {
  if (kept.n == 0) return;
  try {
    const std::scoped_lock lock(mutex_);
    Timed timed(*this);
    timed.samples(kept.n);
    sample(samples_[id], kept.input.data(), kept.n,
           v.result + kept.result.begin * kernels::element_bytes(v.element), kept.result.n, v.element,
           id.ranks, kept.memory_s);
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
    const double elements = mean(static_cast<double>(of_rank.elements), of_rank.samples);
    sums.elements += elements;
    sums.error2 += elements * mean(input.error2, input.measured);
    sums.norm2 += elements * mean(input.norm2, input.measured);
    sums.decoded2 += elements * mean(input.decoded2, input.measured);
  }
}

std::optional<double> estimated_error(const MethodSums& sums, int ranks, const Losses& losses) {
  const bool is_sum = ranks > 1;
  if (sums.input.ruined + sums.result.ruined > 0) return std::numeric_limits<double>::infinity();
  if (!(sums.elements > 0) || (is_sum && sums.result.measured == 0)) return std::nullopt;
  const double result2 = is_sum ? mean(sums.result.norm2, sums.result.measured) : sums.norm2 / sums.elements;
  double error2 = losses.contributions * ranks * sums.error2 / sums.elements;
  if (is_sum) {
    const double kept = sums.norm2 > 0 ? sums.decoded2 / sums.norm2 : 0;
    error2 += losses.aggregate * kept * mean(sums.result.error2, sums.result.measured);
  }
  if (error2 == 0) return 0;
  if (!(result2 > 0) || !std::isfinite(error2) || !std::isfinite(result2)) return std::nullopt;
  return std::sqrt(error2 / result2);
}

double resemblance(const MethodSums& sums, int ranks) {
  if (!(sums.elements > 0) || sums.result.measured == 0 || !(sums.norm2 > 0)) return 1;
  const double inputs2 = ranks * sums.norm2 / sums.elements;
  const double ratio = mean(sums.result.norm2, sums.result.measured) / inputs2;
  return std::isfinite(ratio) ? std::clamp(ratio, 1.0, static_cast<double>(std::max(ranks, 1))) : 1;
}

}  // namespace mq
