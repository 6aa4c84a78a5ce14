#include "mpi_quant/advisor/trial.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

constexpr std::array<std::string_view, 6> kTexts{
    "bf16", "int8", "int4", "onebit", "threshold(quantile=0.99)", "adaptive"};
// The error of bound, relative to the vector, is its `rel` times the greatest magnitude, in units of the root
// mean square, over about 1.7 ranks. That is below 4 rel for dense data on two ranks; the other serves data
// with few great elements.
constexpr double kRelOfError[]{0x1p-2, 0x1p-6};

std::vector<Candidate> parsed() {
  std::vector<std::string> texts(kTexts.begin(), kTexts.end());
  if (env().ok() && env()->advise_error > 0)
    for (const double share : kRelOfError)
      texts.push_back("bound(rel=" + number(std::min(1.0, env()->advise_error * share)) + ")");
  std::vector<Candidate> out;
  for (const std::string& text : texts)
    if (const Result<Method> method = parse_method(text); method.ok() && !method->exact())
      out.push_back({text, *method});
  return out;
}

// The sums of squares of one part. Returns false if they are not finite.
template <class T>
bool compare(const std::byte* x, const std::byte* y, std::size_t n, Trial& sums) {
  double error2 = 0, norm2 = 0, decoded2 = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T before, after;
    std::memcpy(&before, x + i * sizeof(T), sizeof(T));
    std::memcpy(&after, y + i * sizeof(T), sizeof(T));
    const double v = static_cast<double>(before), d = static_cast<double>(after), error = v - d;
    error2 += error * error;
    norm2 += v * v;
    decoded2 += d * d;
  }
  sums.error2 = error2;
  sums.norm2 = norm2;
  sums.decoded2 = decoded2;
  return std::isfinite(error2) && std::isfinite(norm2) && std::isfinite(decoded2);
}

template <class T>
std::uint64_t count_ruined(const std::byte* x, const std::byte* y, std::size_t n) {
  std::uint64_t ruined = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T before, after;
    std::memcpy(&before, x + i * sizeof(T), sizeof(T));
    std::memcpy(&after, y + i * sizeof(T), sizeof(T));
    ruined += std::isfinite(before) && !std::isfinite(after);
  }
  return ruined;
}

bool measures(const Method& method) {
  return method.codec->measures(method.params) != kernels::Measures::nothing;
}

}  // namespace

std::span<const Candidate> candidates() {
  static Immortal<std::vector<Candidate>> list(
      parsed());  // never destroyed, because a report may be written while static objects are destroyed
  return *list;
}

double steady_s() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_to_read(const std::byte* x, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  unsigned sum = 0;
  const double start = steady_s();
  for (std::size_t i = 0; i < bytes; i += kLine) sum += std::to_integer<unsigned>(x[i]);
  volatile unsigned sink = sum;  // otherwise the compiler would remove the reads
  (void)sink;
  return steady_s() - start;
}

void Trial::add(const Trial& other) {
  elements += other.elements;
  wire_bytes += other.wire_bytes;
  measured += other.measured;
  ruined += other.ruined;
  encode_s += other.encode_s;
  decode_s += other.decode_s;
  measure_s += other.measure_s;
  error2 += other.error2;
  norm2 += other.norm2;
  decoded2 += other.decoded2;
}

// A piece of a window, as long as a chunk of the executor. So decoded data lies in the same cache as there.
struct Trials::Part {
  const kernels::CodecOps& ops;
  const kernels::Params& params;
  kernels::Element element;
  const std::byte* x;
  std::size_t n;
  int ranks;
};

// Room for one part of any candidate.
bool Trials::prepare(kernels::Element element) {
  const std::size_t n = kChunkBytes / kernels::element_bytes(element);
  std::size_t bound = 0;
  for (const Candidate& c : candidates())
    bound = std::max(bound, c.method.codec->wire_bound(n, element, c.method.params));
  settled_.resize(candidates().size());
  warm_.resize(kernels::kElements.size() * candidates().size());
  return wire_.reserve(bound) && decoded_.reserve(kChunkBytes);
}

void Trials::run(const Part& part, Trial& trial) {
  kernels::EncodeArgs out;
  out.x = part.x;
  out.n = part.n;
  out.params = part.params;
  out.wire = wire_.data();
  out.noise.ranks = part.ranks;
  const double start = steady_s();
  const kernels::Encoded encoded = part.ops.encode(out);
  const double middle = steady_s();
  kernels::DecodeArgs in;
  in.wire = wire_.data();
  in.wire_bytes = encoded.bytes;
  in.n = part.n;
  in.params = part.params;
  in.x = decoded_.data();
  in.noise = out.noise;
  const kernels::Decoded decoded = part.ops.decode(in);
  const double end = steady_s();
  // cannot happen: a codec reads what it wrote, and its tests check that
  if (decoded != kernels::Decoded::ok) return;
  Trial sums;
  const bool f64 = part.element == kernels::Element::f64;
  const bool finite = f64 ? compare<double>(part.x, decoded_.data(), part.n, sums)
                          : compare<float>(part.x, decoded_.data(), part.n, sums);
  if (finite)
    sums.measured = part.n;
  else
    sums = {};
  // If a NaN went in, onebit may ruin a block that has no NaN of its own. That is not an overflow.
  if (!finite && encoded.nonfinite == 0)
    sums.ruined = f64 ? count_ruined<double>(part.x, decoded_.data(), part.n)
                      : count_ruined<float>(part.x, decoded_.data(), part.n);
  sums.elements = part.n;
  sums.wire_bytes = encoded.bytes;
  sums.encode_s = middle - start;
  sums.decode_s = end - middle;
  trial.add(sums);
}

bool Trials::try_methods(const std::byte* x, std::size_t n, kernels::Element element, kernels::Isa isa,
                         int ranks, Stage stage, std::vector<Trial>& into) {
  if (element != kernels::compute_element(element) || !prepare(element)) return false;
  into.resize(candidates().size());
  const std::size_t bytes = kernels::element_bytes(element), step = kChunkBytes / bytes;
  for (std::size_t c = 0; c < candidates().size() && n > 0; ++c) {
    const Method& method = candidates()[c].method;
    kernels::Params& params = settled_[c];
    if (stage == Stage::contribution || params == kernels::Params{}) params = method.params;
    if (stage == Stage::contribution && measures(method)) {
      const double start = steady_s();
      params = method.codec->settle(method.params, method.codec->measure(x, n, element, method.params));
      into[c].measure_s += steady_s() - start;
    }
    const kernels::CodecOps& ops = *method.codec->ops(element, isa);
    const auto part = [&](std::size_t at) {
      return Part{ops, params, element, x + at * bytes, std::min(step, n - at), ranks};
    };
    char& warm = warm_[static_cast<std::size_t>(element) * candidates().size() + c];
    // the first trial loads code and scratch from memory, which would be charged to few elements
    if (!warm) {
      Trial ignored;
      run(part(0), ignored);
      warm = 1;
    }
    for (std::size_t at = 0; at < n; at += step) run(part(at), into[c]);
  }
  return true;
}

}  // namespace mq
